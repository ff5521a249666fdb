--!df flags=allow-undeclared-keys
-- Acquires an exclusive lock if it is free and nobody queues for it, or queues. Whoever finds the lock free grants it
-- to the first of the queue.
--
--   KEYS   lock, fence, queue
--   ARGV   hold id, lease (ms)
--          1 to queue if the lock is not granted, 0 not to
--          claim (ms)
--   reply  > 0  the fencing token; this hold id holds the lock
--            0  another holds the lock, without expiry
--          < 0  another holds the lock; -1 minus the time (ms) after which to look again
--          NOTLOCK, an error: the key is no lock (lib/lock.lua)
--
-- Sent twice: the second finds the hold of this id, renews its lease and returns the same token, which nobody else
-- can have changed meanwhile; or it finds its place in the queue. But if it came after the first hold or place had
-- ended, it would queue again, and an old grant could be mistaken for a new one. So a call that queues is never sent
-- again.
--
-- The token is issued first, so that nothing is acquired if that fails.

-- needs: fence

local lock, queue, id, lease = KEYS[1], KEYS[3], ARGV[1], ARGV[2]
local function take()
  local token, bad = fence(KEYS[2])
  if not token then return redis.error_reply(bad) end
  redis.call('hset', lock, id, '1')
  redis.call('pexpire', lock, lease)
  return token
end
if redis.pcall('exists', lock, queue, 'relock_yield' .. string.sub(KEYS[2], 13)) == 0 then return take() end

-- needs: lock, places, turns, grant

local waits, place = ARGV[3] == '1', placeOf(id, ARGV[4])
local ttl = redis.call('pttl', lock)
if ttl ~= -2 then
  local no, holder, n = foreign(lock)
  if holder == id or n ~= 1 and redis.pcall('hexists', lock, id) == 1 then
    redis.call('pexpire', lock, lease)
    return lastToken(KEYS[2]) or (fence(KEYS[2]))
  end
  if no then return no end
  if waits then arrive(queue, place) end
  if isRedissons(holder) then
    redissonCame(queue)
    if ttl < 0 or ttl > 2 then ttl = 2 end -- the first of the queue learns at its look that it must listen
  end
  return -1 - ttl
end
local wait = math.min(leftFor(queue, waits), 2)
if waits then arrive(queue, place) end
if wait > 0 then return -1 - wait end -- as above
local winner, token = grant({lock = lock, fence = KEYS[2], queue = queue}, {}, {[place] = true})
if winner and winner ~= place then return -1 - claimOf(winner) end
if not winner then return token and redis.error_reply(token) or take() end
redis.call('pexpire', lock, lease)
return token
