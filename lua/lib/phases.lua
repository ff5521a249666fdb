-- The queue of a read-write lock, and whose turn it is: readers and writers take turns.
--
-- The queue is a sorted set of hold ids. Writers are in order of arrival, their scores are
-- times (µs). Readers come behind them all, at readersFrom and later, since their order does
-- not matter: all readers that queue when a writer leaves are let in together, so a writer
-- waits for one phase of readers at most and a reader for one writer at most. Only when the
-- lease of a writer expires, nothing tells that it was a writer's, and the next writer goes
-- first. A script lets in no more than some hundred. The others come before the writers from
-- then on, with scores below 0, and the first of them is told to look, which lets in the next
-- hundred.
--
-- The queue is relock's own, and beside that of Mutexes: Redisson forbids to use one name for
-- both, and a member of one must not be taken for one of the other.
--
-- A waiter counts as there if its session listens to its grants, or if asks has its hold id
-- because it calls itself; see lib/next.lua. A reader that is not there is dropped, since it
-- has no place to lose. A writer keeps its place until it was not seen for 5 s, three times the
-- interval between two looks. One that is there all the same, because its process is frozen,
-- stops no more readers from then on. A hash beside the queue keeps when (ms) a writer of each
-- session has looked last.
--
-- Redisson's waiters hear only the lock's channel. So while some may listen there, a hand-over
-- leaves the lock free and notifies them, if it was not left to them in the last 100 ms, or if
-- they have used that. The key relock_yield has until when (ms) it is reserved for them, as in
-- lib/yield.lua. When a writer leaves it to them, the readers that queue come before the writers,
-- since it is their turn next.
--
-- q has the names and arguments that these functions share: lock, fence, queue, channel and
-- prefix (of the rwlock_timeout keys) of the lock, claim (ms).
--
--   queueUp       adds a waiter, once
--   unqueue       removes a waiter
--   saw           records that a writer looks
--   firstWriter   returns the first writer that is there, with fresh of those seen lately
--   putFirst      puts readers before the writers: those of ids from that index on
--   enter         gives the read side to some, for a lease. mode is that of the lock, nil if
--                 nobody has it any more. It returns an error if the key is no lock
--   letReadersIn  lets in readers that queue, and returns how many
--   reserved      returns for how long (ms) a free lock is reserved for Redisson
--   wakeTheirs    notifies Redisson's waiters of a lock that is free, or read
--   handOver      gives the lock to the next: nobody has it any more but leaving, fields that
--                 it removes. Readers come first if a writer leaves. It returns the hold id and
--                 token of a writer, true if it has let readers in, or false if there was nobody
--                 or it was Redisson's turn
--   bury          returns whether the readers of a lock are all dead, and removes dead ones
--   beyond        returns whether Redisson has the lock, of which holder is a hold id. If so,
--                 the turn that was left to it is over

-- include: fence
-- include: leases
-- include: readers
-- include: redisson
-- include: next
-- include: wake
-- include: index

local function isWriter(id) return string.sub(id, -6) == ':write' end
local function seenIn(q) return beside(q.queue, 'relock_seen') end
local function tell(q, what, id, more) redis.call(publish, channelOf(q.queue, id), what .. id .. more) end

local function saw(q, id)
  if not isWriter(id) then return end
  redis.pcall('hset', seenIn(q), sessionOf(id), string.format('%.0f', clock()))
  redis.pcall('pexpire', seenIn(q), '15000')
end

local function queueUp(q, id)
  local t = redis.call('time')
  local after = tonumber(redis.call('zrange', q.queue, -1, -1, 'withscores')[2] or 0)
  if after >= readersFrom then after = after - readersFrom end
  local score = math.max(t[1] * 1000000 + t[2], after + 1)
  if not isWriter(id) then score = score + readersFrom end
  redis.call('zadd', q.queue, 'nx', string.format('%.0f', score), id)
  redis.call('pexpire', q.queue, '15000')
  index(q.queue, score)
end

local function unqueue(q, id)
  local had = redis.call('zrem', q.queue, id)
  if had == 1 and isWriter(id) then redis.pcall('hdel', seenIn(q), sessionOf(id)) end
  return had
end

local function there(q, ids, asks)
  local is, channels, of = {}, {}, {}
  for _, id in ipairs(ids) do
    is[id] = not counted or asks and asks[id] or false
    if not is[id] then
      channels[#channels + 1], of[#of + 1] = channelOf(q.queue, id), id
    end
  end
  if #of > 0 then
    local n = redis.pcall('pubsub', numsub, unpack(channels))
    for i, id in ipairs(of) do is[id] = n[2 * i] ~= 0 end
  end
  return is
end

local function firstWriter(q, asks, fresh)
  local passed = 0
  while true do
    local some = redis.call('zrange', q.queue, passed, passed == 0 and 0 or passed + 99)
    if #some == 0 then return nil end
    local is = there(q, some, asks)
    for _, id in ipairs(some) do
      if not isWriter(id) then return nil end
      if is[id] and not fresh then return id end
      local at = tonumber(redis.pcall('hget', seenIn(q), sessionOf(id)) or nil)
      at = at or redis.call('zscore', q.queue, id) / 1000
      local lately = clock() - at < 5000
      if is[id] and lately then return id end
      if is[id] or lately then passed = passed + 1 else unqueue(q, id) end
    end
  end
end

local function enter(q, mode, ids, lease)
  if not mode then return startReading(q.lock, q.prefix, ids, lease) end
  local list, ttl, now = listOf(q.prefix), redis.call('pttl', q.lock), clock()
  local ends = string.format('%.0f', now + lease)
  local valid, explained = explains(q.lock, list, now, ttl)
  if not valid then
    -- include: foreign
    local no = foreign(q.lock)
    if no then return no end
  end
  if mode == 'read' and not explained then keep(q.lock, q.prefix) end
  addReaders(q.lock, q.prefix, ids, ends, {})
  if ttl < tonumber(lease) then redis.call('pexpireat', q.lock, ends) end
  if not valid then redis.pcall('del', list) end
  enlist(list, ids, ends, lease, not valid)
end

local function putFirst(q, ids, from)
  for n = from, #ids, 1000 do
    local before = {}
    for i = n, math.min(n + 999, #ids) do
      before[#before + 1] = i - #ids - 1
      before[#before + 1] = ids[i]
    end
    redis.call('zadd', q.queue, unpack(before))
  end
end

local function letReadersIn(q, mode, asks)
  local ids = redis.call('zrangebyscore', q.queue, '-inf', '(0')
  if #ids == 0 then ids = redis.call('zrangebyscore', q.queue, readersFrom, '+inf') end
  local next, entering = 1, {}
  while next <= #ids and #entering == 0 do
    local some = {unpack(ids, next, math.min(next + 99, #ids))}
    next = next + #some
    local is = there(q, some, asks)
    for _, id in ipairs(some) do
      if is[id] then entering[#entering + 1] = id end
    end
    redis.call('zrem', q.queue, unpack(some))
  end
  if #entering == 0 then return 0 end
  putFirst(q, ids, next)
  enter(q, mode, entering, q.claim)
  local first = redis.call('zrange', q.queue, 0, 0)[1]
  local more = (first and ' 2 ' or ' 1 ') .. q.claim .. ' ' .. q.lock
  for _, id in ipairs(entering) do
    if not (asks and asks[id]) then tell(q, 'granted ', id, more) end
  end
  if next <= #ids then tell(q, 'look ', first, '') end
  return #entering
end

local function drop(q, fields)
  for n = 1, #fields, 1000 do
    redis.call('hdel', q.lock, unpack(fields, n, math.min(n + 999, #fields)))
  end
end

local function yieldKey(q) return beside(q.queue, 'relock_yield') end

local function reserve(q, ...)
  return redis.pcall('set', yieldKey(q), string.format('%.0f *', clock() + 5), 'px', '105', ...)
end

-- nil if there was no turn lately, or the server's clock stepped back
local function sinceTurn(q)
  local text = redis.pcall('get', yieldKey(q))
  local till = type(text) == 'string' and tonumber(string.match(text, '^%d+'))
  local over = till and clock() - till
  return over and over > -1000 and over
end

local function reserved(q)
  local over = sinceTurn(q)
  return over and math.max(0, -over) or 0
end

-- A process of relock that comes back at once must not overtake those who are woken.
local function wakeTheirs(q, message)
  local told = message == '0' and redis.call(publish, q.channel, '0') or wake(q.channel)
  if told > 0 then reserve(q, 'nx') end
  return told
end

local function yield(q, writerLeaves)
  if listeners(q.channel) == 0 then return false end
  local over = sinceTurn(q)
  if over and over < 100 or reserve(q).err then return false end
  if writerLeaves then putFirst(q, redis.call('zrangebyscore', q.queue, readersFrom, '+inf'), 1) end
  tell(q, 'look ', redis.call('zrange', q.queue, 0, 0)[1], '')
  return true
end

local function handOver(q, leaving, writerLeaves, asks)
  local last = redis.call('zrange', q.queue, -1, -1)[1]
  if not last or #leaving > 0 and yield(q, writerLeaves) then return false end
  local given = writerLeaves and not isWriter(last) and letReadersIn(q, nil, asks) > 0
  local id, token
  for _ = 1, 2 do -- readers before the writers may all be gone
    id = not given and not id and firstWriter(q, asks) or id
    given = given or not id and letReadersIn(q, nil, asks) > 0
  end
  if id then
    token = fence(q.fence)
    unqueue(q, id)
    redis.call('hset', q.lock, 'mode', 'write', id, '1')
    redis.call('pexpire', q.lock, q.claim)
    if not (asks and asks[id]) then
      tell(q, 'granted ', id, string.format(' %.0f ', token) .. q.claim .. ' ' .. q.lock)
    end
  elseif not given then
    return false
  end
  drop(q, leaving)
  return id or true, token
end

local function bury(q)
  if living(q.lock, listOf(q.prefix)) then return false end
  local longest, others, keyless, bare = leases(q.lock, q.prefix)
  if #keyless == 0 or others > 0 or kept(q.prefix) > 0 then return false end
  if longest == 0 and bare then
    redis.call('del', q.lock)
    return true
  end
  drop(q, keyless)
  for n = 1, #keyless, 1000 do
    redis.pcall('zrem', listOf(q.prefix), unpack(keyless, n, math.min(n + 999, #keyless)))
  end
  return false
end

local function beyond(q, mode, holder)
  local theirs = redissons(holder)
  if mode == 'read' then theirs = not select(2, listed(q.lock, listOf(q.prefix))) end
  if theirs then came(q.queue) end
  return theirs
end
