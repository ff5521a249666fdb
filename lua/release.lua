--!df flags=allow-undeclared-keys
-- Ends an exclusive hold and grants the lock to the first of the queue. If nobody queues, it
-- wakes who listens to the lock's channel: waiters of Redisson. Without a hold, it ends the place
-- in the queue.
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
-- Sent twice: the second finds nothing, and queues nobody. Hold ids are never used again, so it
-- cannot end another hold, however late it arrives.

-- include: pubsub

local lock, queue, id, channel = KEYS[1], KEYS[2], ARGV[1], ARGV[2]
local named = string.sub(channel, 23)
local others = redis.pcall('exists', queue, 'redisson_lock_queue' .. named, 'relock_yield' .. named)
if not ARGV[4] and others == 0 then
  local had = redis.pcall('hdel', lock, id)
  if had ~= 1 then return had == 0 and -1 or had end
  local told = redis.call(publish, channel, '0')
  if told > 0 then
    -- include: yield
    yields(queue)
  end
  return told
end
-- include: release
return release(lock, KEYS[3], queue, id, ARGV[3], ARGV[4], not ARGV[4] and others == 1)
