--!df flags=allow-undeclared-keys
-- Ends an exclusive hold and grants the lock to the first of the queue. If nobody queues, it wakes who listens to the
-- lock's channel: waiters of Redisson. Without a hold, it ends the place in the queue.
--
--   KEYS   lock, queue, fence
--   ARGV   hold id
--          channel of the lock
--          claim (ms)
--          place to queue in the same step; none if it is missing
--   reply  > 2^40  the fencing token of the place queued in the same step, which holds the lock
--            0, or the number of subscribers woken if the lock was left free
--            -1  there was neither hold nor place
--            DAMAGED, an error: the hold has ended, but a key beside the lock is something else
--
-- Sent twice: the second finds nothing, and queues nobody. Hold ids are never used again, so it cannot end another
-- hold, however late it arrives.

local lock, queue, id, again = KEYS[1], KEYS[2], ARGV[1], ARGV[4]
local named = string.sub(KEYS[3], 13)
local others = redis.pcall('exists', queue, 'redisson_lock_queue' .. named, 'relock_yield' .. named)
local told
if not again and others == 0 then
  local had = redis.pcall('hdel', lock, id)
  if had ~= 1 then return had == 0 and -1 or had end
  told = redis.call(publish, ARGV[2], '0')
  if told == 0 then return 0 end
end

-- needs: fence, lock, places, turns, grant

if told then
  leaves(queue)
  return told
end
return release({lock = lock, fence = KEYS[3], queue = queue}, id, ARGV[3], again, not again and others == 1)
