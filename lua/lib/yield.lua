-- Redisson's waiters hear of a release only on channels of their own: those of an RLock on the
-- channel of the lock, the head of RFairLock's queue on one with its id. relock's waiters queue,
-- and would keep the lock among themselves.
--
-- So while one of Redisson's may be there, a release leaves the lock free and notifies it. The
-- key relock_yield has until when (ms) a free lock is reserved for them, and for whom: that head, or
-- * for all who listen to the lock's channel. For 100 ms after that nothing is left to them again,
-- but the turn of * does not count for a head: those who listened may be sessions of relock.
-- When relock finds that Redisson has come, by its hold, or because the head is head no more, it
-- ends the reservation. After a turn of * it deletes the key: the lock is left to Redisson again
-- after the next hold. But an RFairLock tells of its release only the next of its kind, and may be
-- taken again and again before relock's head finds it free. So after the turn of a head the key keeps
-- when Redisson was last seen, and relock has the lock for as long as Redisson had it, at most 100 ms.
-- The names are derived from the name of the queue, and the Redis user may have no right to those
-- keys, hence pcall.
--
-- Redisson listens at the node of the lock, in a cluster too, so that NUMSUB counts its waiters there.
--
-- theirs returns the head of Redisson's queue. yield decides, at a release, whether the lock is left
-- to Redisson, and has relock's head look; idle is how many listen to the lock's channel for nobody.
-- leave notifies Redisson's waiters, and returns how many listen to the lock's channel. reserved
-- returns what the key says: for how long (ms) a free lock is reserved, for whom (- for nobody), and
-- for how long Redisson has had it since. yielded returns the first two of a reservation that is
-- valid. look has the first of relock's queue look at the lock.

-- include: clock
-- include: next
-- include: redisson

local function theirs(queue)
  local head = redis.pcall('lindex', beside(queue, 'redisson_lock_queue'), 0)
  return type(head) == 'string' and head
end

local function look(queue)
  local first = redis.pcall('zrange', queue, 0, 0)[1]
  if first then redis.call(publish, channelOf(queue, first), 'look ' .. first) end
end

local function reserved(queue)
  local text = redis.pcall('get', beside(queue, 'relock_yield'))
  if type(text) ~= 'string' then return nil end
  local till, to, seen = string.match(text, '^(%d+) (%S+) ?(%d*)')
  till = tonumber(till) or 0
  return till - clock(), to, tonumber(seen) and tonumber(seen) - (till - 100)
end

local function yield(queue, channel, idle)
  local head, to, wait = theirs(queue), '*', 5
  if head and listeners(channel .. ':' .. head) ~= 0 then
    to, wait = head, 100
  elseif (listeners(channel) or 1) <= tonumber(idle) then
    return false
  end
  local last, whose, had = reserved(queue)
  if had then
    to, wait = '-', math.min(had, 100) - 100
  elseif last and last > -100 and last < 1000 and (to == '*' or whose ~= '*') then
    return false
  end
  local text = string.format('%.0f ', clock() + wait) .. to
  if redis.pcall('set', beside(queue, 'relock_yield'), text, 'px', '200').err or to == '-' then return false end
  look(queue)
  return true
end

local function leave(queue, channel)
  local head = theirs(queue)
  if head then redis.pcall(publish, channel .. ':' .. head, '0') end
  return redis.call(publish, channel, '0')
end

local function yielded(queue)
  local wait, to, had = reserved(queue)
  if not wait or wait > 1000 or had or to == '-' then return 0 end
  if to == '*' or to == theirs(queue) then return math.max(0, wait), to end
  came(queue)
  return 0
end
