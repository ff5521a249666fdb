-- pubsub.lua for a cluster with sharded pub/sub.

local publish = 'SPUBLISH'
local numsub = 'shardnumsub'
local counted = true
