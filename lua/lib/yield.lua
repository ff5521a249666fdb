-- Redisson's waiters queue elsewhere. They hear of a release on channels of their own, those of RLock and
-- RReadWriteLock on the lock's, the head of RFairLock's queue on one with its id, and only then do they try.
--
-- The rule: while Redisson wants the lock, every 8th release of relock leaves it free and reserves it until Redisson
-- has had it, for 100 ms at most. If Redisson listens and does not come, its next turn is after twice as many
-- releases, up to 1024; once it has had the lock, after 8 again. It wants the lock while one of its waiters listens,
-- and after its hold for as long as its turn took: 20 ms away, who comes back at once listens only after 80 ms. A
-- reader that would join others counts as a release, and keeps back at Redisson's turn.
--
-- The key relock_yield keeps one of
--   left <since> <every> <back>         Redisson's turn, since then (ms): the lock is reserved while it is free
--   theirs <since>                      Redisson's turn: it has the lock
--   ours <releases> <every> <back>      so many releases until its next turn; it may be back until then (ms)
-- and exists only where Redisson was met in the last 2 s. The user may have no right to it, hence pcall.
--
-- Redisson listens at the node of the lock, in a cluster too, so NUMSUB counts its waiters there. It does
-- not count relock, which listens by pattern.
--
--   redissons     returns whether a hold id is of Redisson, whose clients have UUIDs of version 4;
--                 relock's sessions have version 8
--   came          notes that Redisson has the lock
--   reserved      returns for how long (ms) a lock that is free is reserved for Redisson. Those who do not wait
--                 ask whether it listens. If it had no turn, a claim or lease has lapsed: who is silent is passed
--   yields        decides, at a release, whether the lock is left to Redisson. It asks for the listeners of the
--                 first of relock's queue as well, for hears. alone says that the lock has no key beside it but
--                 that queue
--   keepsBack     returns whether new readers keep back while others read, since it is Redisson's turn, or will
--                 be. When one enters it decides that, as yields does at a release
--   look          has the first of relock's queue look at the lock
--   leave         notifies those who wait for a lock that was left free, or is read from now on: by 0 one waiter
--                 of each process of Redisson, by 1 all that sleep. One that has seen the lock held and is about
--                 to sleep would miss the 1 and sleep for the whole lease. It finds the second message, which is kept
--                 for it: Redisson reads 00 as 0, and nobody else reacts to it

-- include: clock
-- include: places

local patience, often, rarely = 100, 8, 1024

local function redissons(holder) return holder and string.sub(holder, 15, 15) == '4' end

local function channelsOf(queue, alone)
  local rw = string.find(queue, 'relock_rwqueue', 1, true) == 1
  local channel = beside(queue, rw and 'redisson_rwlock' or 'redisson_lock__channel')
  local head = not rw and not alone and redis.pcall('lindex', beside(queue, 'redisson_lock_queue'), 0)
  return channel, type(head) == 'string' and channel .. ':' .. head or nil
end

local function listens(queue, first, alone) -- also where the server does not say it
  local channel, heads = channelsOf(queue, alone)
  local n = redis.pcall('pubsub', numsub, unpack({channel, heads or channel, first and channelOf(queue, first)}))
  if first then hears(queue, first, n[6]) end
  return (n[2] or 1) + (n[4] or 0) > 0
end

local function turn(queue)
  local text = redis.pcall('get', beside(queue, 'relock_yield'))
  local what, n, every, back = string.match(type(text) == 'string' and text or '', '^(%l+) (%d+) ?(%d*) ?(%d*)$')
  return what, tonumber(n) or 0, tonumber(every) or often, tonumber(back) or 0
end

local function note(queue, ...)
  local text = string.format('%s %.0f %.0f %.0f', ...)
  return not redis.pcall('set', beside(queue, 'relock_yield'), text, 'px', '2000').err
end

-- how long (ms) until a time; 0 if it is further away than it can be: the clock has stepped back
local function left(till, now) return till - now <= 1000 and till - now or 0 end

local function came(queue)
  local what, since = turn(queue)
  if what ~= 'theirs' then note(queue, 'theirs', what == 'left' and since or clock(), often, 0) end
end

local function reserved(queue, waits)
  local what, since, every, back = turn(queue)
  if what ~= 'left' and what ~= 'theirs' then
    passSilent(queue)
    return 0
  end
  local now, there = clock(), what == 'left' and listens(queue)
  local wait = what == 'left' and left(since + patience, now) or 0
  if wait > 0 and (there or waits and left(back, now) > 0) then return wait end
  every = there and math.min(2 * every, rarely) or often
  note(queue, 'ours', every, every, what == 'theirs' and now + math.min(now - since, patience) or 0)
  return 0
end

local function yields(queue, first, alone)
  local what, releases, every, back = nil, nil, often, 0
  if not alone then what, releases, every, back = turn(queue) end
  if what == 'ours' and releases > 1 then
    note(queue, what, releases - 1, every, back)
    return false
  end
  if not listens(queue, first, alone) and (back == 0 or left(back, clock()) <= 0) then return false end
  return note(queue, 'left', clock(), every, back)
end

local function keepsBack(queue, enters)
  local what, _, _, back = turn(queue)
  if what ~= 'left' then return enters and yields(queue) end
  return listens(queue) or left(back, clock()) > 0
end

local function look(queue)
  local first = redis.pcall('zrangebyscore', queue, '(0', '+inf', 'limit', 0, 1)[1]
  if first then redis.call(publish, channelOf(queue, first), 'look ' .. idOf(first)) end
end

local function leave(queue, message)
  local channel, heads = channelsOf(queue)
  if heads then redis.pcall(publish, heads, '0') end
  local told = redis.call(publish, channel, message)
  if message == '1' and told > 0 then redis.call(publish, channel, '00') end
  look(queue)
  return told
end
