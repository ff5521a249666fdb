--!df flags=allow-undeclared-keys
-- Gives a hold of acquire.lua to another hold id: that of a holder to a ticket, or that of a ticket to who adopts it.
-- The lock is held all the time, and those who queue for it keep their places. Waiters hear that its lease has changed.
--
--   KEYS   lock, queue, fence
--   ARGV   hold id that has the lock; hold id that gets it; lease of that (ms)
--   reply  > 0  the fencing token of the second, larger than that of the first
--          < 0  neither has the lock; minus the time of the server (ms)
--          NOTLOCK, an error: the key is no lock (lib/lock.lua)
--
-- Sent twice: the second finds the hold of the second id, renews its lease and returns the same token. If that has
-- ended meanwhile it finds nothing, however late it comes: hold ids are never used again.

-- needs: fence, lock, places, turns

local lock, queue, from, to, lease = KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[3]
local no = foreign(lock)
if no then return no end
if redis.call('hexists', lock, to) == 1 then
  if redis.call('pttl', lock) < tonumber(lease) then redis.call('pexpire', lock, lease) end
  return lastToken(KEYS[3]) or (fence(KEYS[3], lease))
end
if redis.call('hexists', lock, from) == 0 then return -clock() end
local token, bad = fence(KEYS[3], lease)
if not token then return redis.error_reply(bad) end
redis.call('hset', lock, to, '1')
redis.call('hdel', lock, from)
redis.call('pexpire', lock, lease)
notify(queue, '0')
return token
