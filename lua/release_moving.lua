-- Ends a hold of any kind in a slot that is being moved. There no node runs a script that
-- names several keys of which the node has only some. This script names the lock alone, so
-- it runs on whichever node has it. The caller deletes what else belongs to the hold.
--
--   KEYS   lock
--   ARGV   field of the hold
--   reply  1 if others may acquire the lock now, 0 if readers still hold it, -1 if there was
--          no such hold
--
-- Sent twice: the second finds nothing.
--
-- A writer that still reads leaves the lock in read mode with the expiry it has. The leases
-- of the readers cannot be read from here; their renewals prolong the lock. A script that
-- was refused halfway may have left a mode without holders, which is deleted.
--
-- All reads come before the first write: a key that has become empty is a key that has
-- moved to the other node.

local had = redis.call('hexists', KEYS[1], ARGV[1])
local mode = redis.call('hget', KEYS[1], 'mode')
local others = redis.call('hlen', KEYS[1]) - had - (mode and 1 or 0)
local writes = mode and string.sub(ARGV[1], -6) == ':write'
if others <= 0 then
  redis.call('del', KEYS[1])
elseif had == 1 then
  if writes then redis.call('hset', KEYS[1], 'mode', 'read') end
  redis.call('hdel', KEYS[1], ARGV[1])
end
if had == 0 then return -1 end
return (others <= 0 or writes) and 1 or 0
