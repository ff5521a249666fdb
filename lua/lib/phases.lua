-- The queue of a read-write lock, and whose turn it is: readers and writers take turns.
--
-- The queue is one of places; see lib/places.lua. Writers are in order of arrival, their scores are
-- times (µs). Readers come behind them all, above readersFrom, since their order does
-- not matter: all readers that queue when a writer leaves are let in together, so a writer
-- waits for one phase of readers at most and a reader for one writer at most. Only when the
-- lease of a writer expires, nothing tells that it was a writer's, and the next writer goes
-- first. A script lets in no more than some hundred. The others come before the writers from
-- then on, with scores from 1 on, and the first of them is told to look, which lets in the next
-- hundred.
--
-- The queue is relock's own, and beside that of Mutexes: Redisson forbids to use one name for
-- both, and a member of one must not be taken for one of the other.
--
-- A writer whose session is silent stops no more readers.
--
-- q has the names and arguments that these functions share: lock, fence, queue, channel and
-- prefix (of the rwlock_timeout keys) of the lock, claim (ms).
--
--   queueUp       adds a place, once
--   firstWriter   returns the first writer that is there, with fresh of those that are not silent
--   putFirst      puts readers before the writers: those of places from that index on
--   enter         gives the read side to some, for a lease. mode is that of the lock, nil if
--                 nobody has it any more. It returns an error if the key is no lock
--   letReadersIn  lets in readers that queue, and returns how many
--   handOver      gives the lock to the next: nobody has it any more but leaving, fields that
--                 it removes. Readers come first if a writer leaves. It returns the place and
--                 token of a writer, true if it has let readers in, or false if there was nobody,
--                 and an error if no token can be issued
--   passOn        does that at a release, unless it is Redisson's turn (lib/yield.lua, also for alone): after
--                 that of a writer, the readers that queue come before the writers
--   bury          returns whether the readers of a lock are all dead, and removes dead ones
--   beyond        returns whether Redisson has the lock, of which holder is a hold id. If so,
--                 the turn that was left to it is over

-- include: fence
-- include: leases
-- include: readers
-- include: places
-- include: yield

local function isWriter(place) return string.find(place, ':write', 1, true) end
local function tell(q, what, place, more)
  redis.call(publish, channelOf(q.queue, place), what .. idOf(place) .. more)
end

local function queueUp(q, place)
  local t = redis.call('time')
  local after = tonumber(redis.call('zrange', q.queue, -1, -1, 'withscores')[2]) or 0
  if after >= 9007199254740992 then after = 0 end
  if after >= readersFrom then after = after - readersFrom end
  local score = math.max(t[1] * 1000000 + t[2], after + 1)
  if not isWriter(place) then score = score + readersFrom end
  enqueue(q.queue, place, score)
end

local function firstWriter(q, asks, fresh, first)
  local isSilent = fresh and silent(q.queue)
  while true do
    first = first or firstOf(q.queue)
    local place, score = first[1], first[2]
    if not place then return nil end
    if not isPlace(place) then
      redis.call('zrem', q.queue, place)
    elseif not isWriter(place) then
      return nil
    elseif asks and asks[place] or tonumber(score) < 1
      or hears(q.queue, place) and not (isSilent and isSilent(place, score)) then
      return place
    else
      standBack(q.queue, {score, place})
    end
    first = nil
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

local function putFirst(q, places, from)
  for n = from, #places, 1000 do
    local before = {}
    for i = n, math.min(n + 999, #places) do
      before[#before + 1] = i - from + 1
      before[#before + 1] = places[i]
    end
    redis.call('zadd', q.queue, unpack(before))
  end
end

-- sortOut returns those that are there, whose places leave the queue. The others stand back.
local function sortOut(q, some, asks)
  local channels, entering, back = {}, {}, {}
  for i = 1, #some, 2 do channels[#channels + 1] = channelOf(q.queue, some[i]) end
  local n = counted and redis.pcall('pubsub', numsub, unpack(channels)) or {}
  for i = 1, #some, 2 do
    local place, score = some[i], some[i + 1]
    if not isPlace(place) then
      redis.call('zrem', q.queue, place)
    elseif n[i + 1] ~= 0 or tonumber(score) < 1 or asks and asks[place] then
      entering[#entering + 1] = place
    else
      back[#back + 1], back[#back + 2] = score, place
    end
  end
  if #entering > 0 then redis.call('zrem', q.queue, unpack(entering)) end
  standBack(q.queue, back)
  return entering
end

local function enterAll(q, mode, places)
  local claims, ids = {}, {}
  for _, place in ipairs(places) do
    local claim = claimOf(place)
    if not ids[claim] then
      ids[claim], claims[#claims + 1] = {}, claim
    end
    table.insert(ids[claim], idOf(place))
  end
  for _, claim in ipairs(claims) do
    local no = enter(q, mode, ids[claim], claim)
    if no then return no end
    mode = 'read'
  end
end

local function letReadersIn(q, mode, asks)
  local waiting = redis.call('zrangebyscore', q.queue, '1', '1000000', 'withscores')
  if #waiting == 0 then waiting = redis.call('zrangebyscore', q.queue, readersFrom, '+inf', 'withscores') end
  local first = redis.call('zrangebyscore', q.queue, '(0', '(1', 'withscores')
  for i = 1, #first, 2 do
    if not isWriter(first[i]) then waiting[#waiting + 1], waiting[#waiting + 2] = first[i], first[i + 1] end
  end
  local next, entering = 1, {}
  while next < #waiting and #entering == 0 do
    entering = sortOut(q, {unpack(waiting, next, math.min(next + 199, #waiting))}, asks)
    next = next + 200
  end
  if #entering == 0 then return 0 end
  local rest = {}
  for i = next, #waiting, 2 do rest[#rest + 1] = waiting[i] end
  putFirst(q, rest, 1)
  if enterAll(q, mode, entering) then return 0 end
  first = firstPlace(q.queue)
  for _, place in ipairs(entering) do
    if not (asks and asks[place]) then
      tell(q, 'granted ', place, (first and ' 2 ' or ' 1 ') .. claimOf(place) .. ' ' .. q.lock)
    end
  end
  if #rest > 0 then tell(q, 'look ', first, '') end
  return #entering
end

local function drop(q, fields)
  for n = 1, #fields, 1000 do
    redis.call('hdel', q.lock, unpack(fields, n, math.min(n + 999, #fields)))
  end
end

local function handOver(q, leaving, writerLeaves, asks, first)
  local last, bad = lastPlace(q.queue)
  if not last then return false, bad end
  local given = writerLeaves and not isWriter(last) and letReadersIn(q, nil, asks) > 0
  local writer, token, text
  for _ = 1, 2 do -- readers before the writers may all be gone
    writer = not given and not writer and firstWriter(q, asks, false, first) or writer
    first = nil
    given = given or not writer and letReadersIn(q, nil, asks) > 0
  end
  if writer then
    token, text = fence(q.fence)
    if not token then
      tell(q, 'look ', writer, '') -- it learns of that
      return false, text
    end
    redis.call('zrem', q.queue, writer)
    redis.call('hset', q.lock, 'mode', 'write', idOf(writer), '1')
    redis.call('pexpire', q.lock, claimOf(writer))
    if not (asks and asks[writer]) then
      tell(q, 'granted ', writer, ' ' .. text .. ' ' .. claimOf(writer) .. ' ' .. q.lock)
    end
  elseif not given then
    return false
  end
  drop(q, leaving)
  return writer or true, token
end

local function passOn(q, leaving, writerLeaves, asks, alone)
  local first = firstOf(q.queue, redis.pcall)
  if not yields(q.queue, first[1], alone and first[1]) then return handOver(q, leaving, writerLeaves, asks, first) end
  if writerLeaves then putFirst(q, redis.call('zrangebyscore', q.queue, readersFrom, '+inf'), 1) end
  return false
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
