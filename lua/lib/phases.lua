-- Whose turn it is at a read-write lock: readers and writers take turns.
--
-- Writers are first in the queue, in order of arrival. Readers come behind them all: all that queue when a writer
-- leaves are let in together, so a writer waits for one phase of readers at most and a reader for one writer. (When
-- the lease of a writer expires, nothing tells that it was a writer's, and the next writer goes first.) A script lets
-- in some hundred. The others come before the writers from then on, and the first of them is told to look, which lets
-- in the next hundred. A writer whose session is silent stops no more readers.
--
-- The queue is beside that of Mutexes: a member of one must not be taken for one of the other. q is as for grant.
--
--   stoppedBy      returns the first writer that is there and not silent
--   putFirst       puts readers before the writers
--   enter          gives the read side to some, for a lease. mode is that of the lock, nil if nobody has it any more.
--                  It returns an error if the key is no lock
--   letReadersIn   lets in readers that queue, and returns whether there were any
--   handOver       gives any lock to the next: nobody has it any more but leaving, fields that it removes. Readers
--                  come first if a writer leaves. It returns as grant, or true if it has let readers in
--   passOn         does that at a release, unless it is left to Redisson (alone as for leaves): after that turn, the
--                  readers that queue come before the writers
--   removeDead     removes dead readers, and returns whether that ended the lock
--   redissonHolds  returns whether Redisson has the lock, of which holder is a hold id, and notes it

local function stoppedBy(q) return nextPlace(q.queue, nil, nil, silent(q.queue)) end

local function enter(q, mode, ids, lease)
  if not mode then return startReading(q.lock, q.prefix, ids, lease) end
  local list, ttl, now = listOf(q.prefix), redis.call('pttl', q.lock), clock()
  local ends = string.format('%.0f', now + lease)
  local last = redis.pcall('zrange', list, -1, -1, 'withscores')
  local valid = last[1] and redis.call('hexists', q.lock, last[1]) == 1
  if not valid then
    local no = foreign(q.lock)
    if no then return no end
  end
  if mode == 'read' and not (valid and (math.abs(now + ttl - last[2]) <= 1 or select(2, listed(q.lock, list)))) then
    keepOthers(q.lock, q.prefix) -- the lock lives longer than the last of the list, and has readers of Redisson
  end
  addReaders(q.lock, q.prefix, ids, ends, {})
  if ttl < tonumber(lease) then redis.call('pexpireat', q.lock, ends) end
  if not valid then redis.pcall('del', list) end
  enlist(list, ids, ends, lease, not valid)
end

local function putFirst(q, places)
  local before = {}
  for i, place in ipairs(places) do before[2 * i - 1], before[2 * i] = i, place end
  many('zadd', q.queue, before)
end

local function enterAll(q, mode, places)
  local claims, ids = {}, {}
  for _, place in ipairs(places) do
    local claim = claimOf(place)
    if not ids[claim] then ids[claim], claims[#claims + 1] = {}, claim end
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
  for _, text in ipairs(redis.call('zrangebyscore', q.queue, '(0', '(1', 'withscores')) do
    waiting[#waiting + 1] = text
  end
  local entering, back, rest = {}, {}, {}
  for i = 1, #waiting, 2 do
    local place, score = waiting[i], waiting[i + 1]
    if #entering == 100 then
      rest[#rest + 1] = place
    elseif not isPlace(place) then
      redis.call('zrem', q.queue, place)
    elseif asks and asks[place] or tonumber(score) < 1 or hears(q.queue, place) then
      if isReader(q.queue, place) then entering[#entering + 1] = place end
    else
      back[#back + 1], back[#back + 2] = score, place
    end
  end
  standBack(q.queue, back)
  if #entering == 0 then return false end
  redis.call('zrem', q.queue, unpack(entering))
  putFirst(q, rest)
  if enterAll(q, mode, entering) then return false end
  local first = firstPlace(q.queue)
  for _, place in ipairs(entering) do
    if not (asks and asks[place]) then
      local text = 'granted ' .. idOf(place) .. (first and ' 2 ' or ' 1 ') .. claimOf(place) .. ' ' .. q.lock
      redis.call(publish, channelOf(q.queue, place), text)
    end
  end
  if #rest > 0 then tellFirst(q.queue) end
  return true
end

local function handOver(q, leaving, writerLeaves, asks, first)
  if not q.prefix then return grant(q, leaving, asks, first) end
  local last = redis.pcall('zrange', q.queue, -1, -1, 'withscores')
  if last.err or not last[1] or tonumber(last[2]) < 0 then return false, last.err end
  local given = writerLeaves and not isWriter(last[1]) and letReadersIn(q, nil, asks)
  for _ = 1, 2 do -- readers before the writers may all be gone
    if not given then
      local place, token = grant(q, leaving, asks, first)
      if place or token then return place, token end
      first, given = nil, letReadersIn(q, nil, asks)
    end
  end
  if given then many('hdel', q.lock, leaving) end
  return given
end

local function passOn(q, leaving, writerLeaves, asks, first, alone)
  if not leaves(q.queue, first[1], alone and first[1]) then return handOver(q, leaving, writerLeaves, asks, first) end
  if q.prefix and writerLeaves then putFirst(q, redis.call('zrangebyscore', q.queue, readersFrom, '+inf')) end
  return false
end

local function removeDead(q)
  if allLive(q.lock, listOf(q.prefix)) then return false end
  local longest, others, keyless, bare = leases(q.lock, q.prefix)
  if #keyless == 0 or others > 0 or othersLive(q.prefix) > 0 then return false end
  if longest == 0 and bare then
    redis.call('del', q.lock)
    return true
  end
  many('hdel', q.lock, keyless)
  for _, id in ipairs(keyless) do redis.pcall('zrem', listOf(q.prefix), id) end
  return false
end

local function redissonHolds(q, mode, holder)
  local theirs = isRedissons(holder)
  if mode == 'read' then theirs = not select(2, listed(q.lock, listOf(q.prefix))) end
  if theirs then redissonCame(q.queue) end
  return theirs
end
