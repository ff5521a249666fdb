--!df flags=allow-undeclared-keys
-- Gives a hold of acquire.lua to another hold id: that of a holder to a ticket, or that of a ticket to who adopts it.
-- The lock is held all the time, and those who queue for it keep their places. Waiters hear that its lease has changed.
--
--   KEYS   lock, queue, fence
--   ARGV   hold id that has the lock; hold id that gets it; lease of that (ms); 1 if that is a ticket, else 0
--   reply  > 0  the fencing token of the second, larger than that of the first; if it is a ticket, the time of the
--               server (ms)
--          < 0  neither has the lock; minus the time of the server (ms)
--          NOTLOCK, an error: the key is no lock (lib/lock.lua)
--
-- Sent twice: the second finds the hold of the second id, renews its lease and returns the same token, or the time. If
-- that has ended meanwhile it finds nothing, however late it comes: hold ids are never used again.

-- needs: fence, lock, places, turns

local lock, queue, from, to, lease, ticket = KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[3], ARGV[4] == '1'
local again, token, bad = redis.pcall('hexists', lock, to), nil, nil
local held = again
if again == 0 then held = redis.pcall('hexists', lock, from) end
if held ~= 1 then return foreign(lock) or held == 0 and -clock() or held end
if again == 1 then token = lastToken(KEYS[3]) end
if not token then token, bad = fence(KEYS[3], lease) end
if not token then return redis.error_reply(bad) end
if again == 1 then
  if redis.call('pttl', lock) < tonumber(lease) then redis.call('pexpire', lock, lease) end
  return ticket and clock() or token
end
redis.call('hset', lock, to, '1')
redis.call('hdel', lock, from)
redis.call('pexpire', lock, lease)
notify(queue, '0')
return ticket and clock() or token
