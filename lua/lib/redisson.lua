-- redissons returns whether a hold id is of Redisson, whose clients have UUIDs of version 4;
-- relock's sessions have version 8. came notes that Redisson has taken the lock that was left to
-- it, so that it is left to it again after the next hold of relock; see lib/yield.lua.

-- include: beside

local function redissons(holder) return holder and string.sub(holder, 15, 15) == '4' end
local function came(queue) redis.pcall('del', beside(queue, 'relock_yield')) end
