-- Redisson's waiters hear of a release only on channels of their own: those of an RLock on the
-- channel of the lock, the head of RFairLock's queue on one with its id. relock's waiters queue,
-- and would keep the lock among themselves.
--
-- So while one of Redisson's may be there, a release leaves the lock free and notifies it. The
-- key relock_yield names to whom: that head, or * for all who listen to the lock's channel. Until
-- the key has 100 ms left to live, a free lock is reserved for them; until it is gone, nothing
-- is left to them again. When relock's head finds that Redisson has come, it deletes the key. The
-- names are derived from the name of the queue, and the Redis user may have no right to those
-- keys, hence pcall.
--
-- theirs returns the head of Redisson's queue. yield decides, at a release, whether the lock is
-- left to Redisson, and has relock's head look. yielded returns for how long (ms) a free lock is
-- reserved. look has the first of relock's queue look at the lock.

-- include: next

local function theirs(queue)
  local head = redis.pcall('lindex', beside(queue, 'redisson_lock_queue'), 0)
  return type(head) == 'string' and head
end

local function look(queue, publish)
  local first = redis.pcall('zrange', queue, 0, 0)[1]
  if first then redis.call(publish, channelOf(queue, publish, first), 'look ' .. first) end
end

local function yield(queue, channel, publish, counted)
  local key = beside(queue, 'relock_yield')
  if redis.pcall('exists', key) ~= 0 then return false end
  local head, to, px = theirs(queue), nil, nil
  if head then
    local heard = redis.pcall(publish, channel .. ':' .. head, '0')
    if type(heard) == 'number' and (heard > 0 or counted == '0') then to, px = head, '200' end
  end
  if not to and (counted == '0' or listeners(publish, channel) ~= 0) then to, px = '*', '105' end
  if not to or redis.pcall('set', key, to, 'px', px).err then return false end
  look(queue, publish)
  return true
end

local function yielded(queue)
  local key = beside(queue, 'relock_yield')
  local to = redis.pcall('get', key)
  if type(to) ~= 'string' or to ~= '*' and to ~= theirs(queue) then return 0 end
  return math.max(0, redis.call('pttl', key) - 100)
end
