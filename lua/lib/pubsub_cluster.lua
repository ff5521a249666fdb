-- pubsub.lua for a cluster without sharded pub/sub: a server knows only those subscribers who
-- are connected to it.

local publish = 'PUBLISH'
local numsub = 'numsub'
local counted = false
