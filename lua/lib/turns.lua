-- Turns that are left to Redisson. Its waiters queue elsewhere, and try when they hear of a release: those of RLock
-- and RReadWriteLock on the lock's channel, the head of RFairLock's queue on one with its id.
--
-- The rule: every 8th release of relock leaves the lock free until Redisson has had it, for 100 ms at most, if one of
-- its waiters listens, or may be back: after a hold of Redisson that is so for as long as its turn took. If Redisson
-- listens and does not come, its next turn is after twice as many releases, up to 1024; once it has had the lock,
-- after 8 again. A reader that would join others counts as a release, and waits at Redisson's turn.
--
-- The key relock_yield exists only where Redisson was met in the last 2 s. The user may have no right to it. It is
--   left <since> <every> <back>     Redisson's turn, since then (ms)
--   theirs <since>                  Redisson's turn: it has the lock
--   ours <releases> <every> <back>  so many releases until its next turn; it may be back until then (ms)
--
-- Redisson listens at the node of the lock, so NUMSUB counts its waiters there; relock listens by pattern.
--
--   isRedissons   returns whether a hold id is of Redisson: its UUIDs are of version 4, relock's of version 8
--   redissonCame  notes that Redisson has the lock
--   leftFor       returns for how long (ms) a free lock is left to Redisson; for those who do not wait, only while it
--                 listens. If it had no turn, a claim or lease has lapsed: who is silent is passed
--   leaves        decides, at a release, whether the lock is left to Redisson. It asks for the listeners of the first
--                 of relock's queue as well, for hears. alone says that the lock has no key beside it but that queue
--   readersWait   returns whether new readers wait while others read, since it is Redisson's turn; when one enters,
--                 it decides that as leaves does
--   tellFirst     has the first of relock's queue look at the lock
--   notify        tells Redisson's waiters of a lock that was left free, or is read from now on: by 0 one of each
--                 process, by 1 all that sleep. One that is about to sleep would miss the 1. It finds the second
--                 message, which is kept for it: Redisson reads 00 as 0, and nobody else reacts to it

local patience, often, rarely = 100, 8, 1024

local function isRedissons(holder) return holder and string.sub(holder, 15, 15) == '4' end

local function channelsOf(queue, alone)
  local rw = string.find(queue, 'relock_rwqueue', 1, true) == 1
  local channel = companion(queue, rw and 'redisson_rwlock' or 'redisson_lock__channel')
  local head = not rw and not alone and redis.pcall('lindex', companion(queue, 'redisson_lock_queue'), 0)
  return channel, type(head) == 'string' and channel .. ':' .. head or nil
end

local function listens(queue, first, alone) -- also where the server does not say it
  local channel, heads = channelsOf(queue, alone)
  local n = redis.pcall('pubsub', numsub, unpack({channel, heads or channel, first and channelOf(queue, first)}))
  if first then hears(queue, first, n[6]) end
  return (n[2] or 1) + (n[4] or 0) > 0
end

local function turn(queue)
  local text = redis.pcall('get', companion(queue, 'relock_yield'))
  local what, n, every, back = string.match(type(text) == 'string' and text or '', '^(%l+) (%d+) ?(%d*) ?(%d*)$')
  return what, tonumber(n) or 0, tonumber(every) or often, tonumber(back) or 0
end

local function note(queue, ...)
  local text = string.format('%s %.0f %.0f %.0f', ...)
  return not redis.pcall('set', companion(queue, 'relock_yield'), text, 'px', '2000').err
end

-- how long (ms) until a time; 0 if it is further away than it can be: the clock has stepped back
local function left(till, now) return till - now <= 1000 and till - now or 0 end

local function redissonCame(queue)
  local what, since = turn(queue)
  if what ~= 'theirs' then note(queue, 'theirs', what == 'left' and since or clock(), often, 0) end
end

local function leftFor(queue, waits)
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
  nextPlace(queue, nil, nil, silent(queue)) -- a claim may have lapsed before its turn
  return 0
end

local function leaves(queue, first, alone)
  local what, releases, every, back = nil, nil, often, 0
  if not alone then what, releases, every, back = turn(queue) end
  if what == 'ours' and releases > 1 then
    note(queue, what, releases - 1, every, back)
    return false
  end
  if not listens(queue, first, alone) and (back == 0 or left(back, clock()) <= 0) then return false end
  return note(queue, 'left', clock(), every, back)
end

local function readersWait(queue, enters)
  local what, _, _, back = turn(queue)
  if what ~= 'left' then return enters and leaves(queue) end
  return listens(queue) or left(back, clock()) > 0
end

local function notify(queue, message)
  local channel, heads = channelsOf(queue)
  if heads then redis.pcall(publish, heads, '0') end
  local told = redis.call(publish, channel, message)
  if message == '1' and told > 0 then redis.call(publish, channel, '00') end
  tellFirst(queue)
  return told
end
