-- How the messages of locks are published, how their subscribers are counted, and whether the
-- server knows all of them. In a cluster the scripts have pubsub_cluster.lua in place of this
-- file, and if it has sharded pub/sub, pubsub_shards.lua.

local publish = 'PUBLISH'
local numsub = 'numsub'
local counted = true
