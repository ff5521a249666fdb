-- A waiter of Redisson's RFairLock reacts to a release only on a channel of its own, and only
-- the head of Redisson's queue is notified. relock reads that queue and never writes to it.
--
-- theirs returns the head of Redisson's queue. yield notifies it before the next waiter of
-- relock, and for a moment, or until it has left its queue, no FairMutex acquires the lock.
-- The names of those keys are derived from the name of the queue. The Redis user may have
-- no right to them, hence pcall.

local function theirs(queue)
  local head = redis.pcall('lindex', 'redisson_lock_queue' .. string.sub(queue, 13), 0)
  return type(head) == 'string' and head
end

local function yield(queue, publish, counted, grant)
  local head = theirs(queue)
  if not head then return false end
  local name = string.sub(queue, 13)
  local heard = redis.pcall(publish, 'redisson_lock__channel' .. name .. ':' .. head, '0')
  if type(heard) ~= 'number' or heard == 0 and counted == '1' then return false end
  redis.pcall('set', 'relock_yield' .. name, head, 'px', 100)
  local first = redis.pcall('zrange', queue, 0, 0)[1]
  if first then redis.call(publish, grant .. (string.match(first, '^(.*):') or ''), first .. ' look') end
  return true
end
