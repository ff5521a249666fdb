--!df flags=allow-undeclared-keys
-- Ends an exclusive hold and grants the lock to the first of the queue. If nobody queues, it
-- wakes who listens to the lock's channel: waiters of Redisson. Without a hold, it ends the place
-- in the queue.
--
--   KEYS   lock, and in a cluster queue and fence; see acquire.lua
--   ARGV   hold id
--          channel of the lock
--          claim (ms); 5000 if it is missing
--          how many of the channel's subscribers listen for nobody; 0 if it is missing
--          hold id to queue in the same step; none if it is missing
--   reply  > 2^40  the fencing token of the id queued in the same step, which holds the lock
--            0, or the number of subscribers woken if the lock was left free
--            -1  there was neither hold nor place
--
-- Sent twice: the second finds nothing, and queues nobody. Hold ids are never used again, so it
-- cannot end another hold, however late it arrives.

-- include: pubsub

local named = string.sub(ARGV[2], 23)
local queue = KEYS[2] or 'relock_queue' .. named
local queues = ARGV[5] or redis.pcall('exists', queue, 'redisson_lock_queue' .. named)
if queues == 0 then
  local had = redis.pcall('hdel', KEYS[1], ARGV[1])
  if had ~= 1 then return had == 0 and -1 or had end
  local told = redis.call(publish, ARGV[2], '0')
  if told > 0 and told > tonumber(ARGV[4] or 0) then
    -- A process of relock that comes back at once must not overtake them; see lib/yield.lua.
    -- include: clock
    redis.pcall('set', 'relock_yield' .. named, string.format('%.0f *', clock() + 5), 'px', '105', 'nx')
  end
  return told
end
local fencekey = KEYS[3] or 'relock_fence' .. named
local claim, idle = ARGV[3] or '5000', tonumber(ARGV[4] or 0)
if queues == 1 and counted and redis.pcall('hexists', KEYS[1], ARGV[1]) == 1 then
  -- Most often there is one queue, that of relock, its first is there, and nobody of Redisson listens.
  -- include: give
  local first = redis.call('zpopmin', queue)
  if first[1] then
    local channel = channelOf(queue, first[1])
    local n = redis.pcall('pubsub', numsub, ARGV[2], channel)
    if n[4] and n[4] > 0 and n[2] <= idle then
      give(KEYS[1], fencekey, queue, claim, first[1], false, ARGV[1], channel)
      return 0
    end
    redis.call('zadd', queue, first[2], first[1])
    redis.call('pexpire', queue, '15000')
  end
end
-- include: release
return release(KEYS[1], fencekey, queue, ARGV[1], ARGV[2], claim, idle, ARGV[5])
