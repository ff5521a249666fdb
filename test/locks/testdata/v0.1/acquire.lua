local publish, numsub, counted = 'PUBLISH', 'numsub', true
local time = redis.call('time')
local function clock() return time[1] * 1000 + math.floor(time[2] / 1000) end
local function tokenIn(value)
  local n = tonumber(value or nil)
  return n and n > 0 and n < 9007199254740992 and n % 1 == 0 and n or nil
end
local function lastToken(key) return tokenIn(redis.pcall('get', key)) end
local function memory(lease) return math.max(60000, (tonumber(lease) or 0) + 1000) end
local function fence(key, lease)
  local ms = clock()
  local token = ms * 1024
  local text = string.format('%.0f', token)
  local kept = memory(lease)
  local last = redis.pcall('set', key, text, 'px', kept, 'get')
  if type(last) == 'table' then return nil, last.err end
  last = tokenIn(last)
  if last and last < token then return token, text end
  if last then
    token = last + (last % 1024 == 0 and 1024 or 1)
  else
    token = time[1] * 1024000 + math.floor(time[2] * 1.024) + 2064
  end
  if token % 1024 == 0 then token = token + 1 end
  text = string.format('%.0f', token)
  redis.call('set', key, text, 'px', kept + math.max(math.ceil(token / 1024) - ms, 0))
  return token, text
end
local lock, queue, id, lease = KEYS[1], KEYS[3], ARGV[1], ARGV[2]
local prefix = ARGV[5] ~= '' and ARGV[5] or nil
local function take()
  local token, bad = fence(KEYS[2], lease)
  if not token then return redis.error_reply(bad) end
  if prefix then redis.call('hset', lock, 'mode', 'write', id, '1') else redis.call('hset', lock, id, '1') end
  redis.call('pexpire', lock, lease)
  return token
end
if redis.pcall('exists', lock, queue, 'relock_yield' .. string.sub(KEYS[2], 13)) == 0 then return take() end
local function wrongType(reply)
  return type(reply) == 'table' and string.find(reply.err or '', 'WRONGTYPE', 1, true) and true
end
local hex4 = '%x%x%x%x'
local holdId = '^' .. hex4 .. string.rep(hex4 .. '%-', 4) .. string.rep(hex4, 3) .. ':%-?%d+(.*)$'
local function isHold(field)
  local rest = string.match(field, holdId)
  return rest == '' or rest == ':write'
end
local function foreign(lock)
  local fields = redis.pcall('hrandfield', lock, '16')
  if wrongType(fields) then return redis.error_reply('NOTLOCK type') end
  if fields.err then
    local n = redis.pcall('hlen', lock)
    return wrongType(n) and redis.error_reply('NOTLOCK type') or nil
  end
  for _, field in ipairs(fields) do
    if isHold(field) then return nil, field, #fields end
  end
  return #fields > 0 and redis.error_reply('NOTLOCK hash') or nil
end
local function many(command, key, items)
  for n = 1, #items, 1000 do redis.call(command, key, unpack(items, n, math.min(n + 999, #items))) end
end
local function strip(lock, holds, bare)
  if bare then
    redis.call('del', lock)
    return
  end
  redis.call('hdel', lock, 'mode')
  many('hdel', lock, holds)
end
local function near(lock, key)
  local most = redis.call('pttl', lock)
  local left = redis.pcall('pttl', key)
  if type(left) ~= 'number' then left = 0 end -- it is in another node already
  return left > 0 and left <= most + 1 and left >= redis.call('pttl', lock) - 1, left
end
local function startLease(lock, key, lease)
  local ttl, ends = redis.call('pttl', lock), string.format('%.0f', clock() + lease)
  if redis.call('pexpireat', key, ends) == 0 then return nil end
  if ttl < tonumber(lease) then redis.call('pexpireat', lock, ends) end
  return ends
end
local function leases(lock, prefix, but)
  local longest, others, keyless, bare = 0, redis.call('pttl', lock), {}, true
  local fields = redis.call('hgetall', lock)
  for i = 1, #fields, 2 do
    if isHold(fields[i]) then
      local most = 0
      for n = 1, tonumber(fields[i + 1]) or 0 do
        local same, left = near(lock, prefix .. fields[i] .. ':rwlock_timeout:' .. n)
        if same then others = 0 end
        most = math.max(most, left)
      end
      if fields[i] ~= but then
        if most <= 0 then keyless[#keyless + 1] = fields[i] end
        longest = math.max(longest, most)
      end
    elseif fields[i] ~= 'mode' then
      bare = false
    end
  end
  return longest, others, keyless, bare
end
local function othersLive(prefix)
  local left = redis.pcall('pttl', prefix .. 'others:rwlock_timeout:1')
  return type(left) == 'number' and math.max(left, 0) or 0
end
local function keepOthers(lock, prefix)
  local _, others = leases(lock, prefix)
  if others > 0 then redis.pcall('set', prefix .. 'others:rwlock_timeout:1', 1, 'px', others) end
end
local function listOf(prefix) return 'relock_readers:' .. string.sub(prefix, 1, -2) end
local function listed(lock, list)
  local id = redis.pcall('zrange', list, 0, 0)[1]
  if not id or redis.call('hexists', lock, id) == 0 then return false end
  return true, redis.call('zcard', list) == redis.call('hlen', lock) - 1
end
local function allLive(lock, list)
  if not select(2, listed(lock, list)) then return false end
  return tonumber(redis.call('zrange', list, 0, 0, 'withscores')[2]) > clock()
end
local function lastLease(list, prefix, readers)
  if redis.pcall('zcard', list) ~= readers then return 0 end
  local left = redis.pcall('pttl', prefix .. redis.call('zrange', list, -1, -1)[1] .. ':rwlock_timeout:1')
  return type(left) == 'number' and left or 0
end
local function enlist(list, ids, ends, lease, new)
  local added = {}
  for _, id in ipairs(ids) do added[#added + 1], added[#added + 2] = ends, id end
  local n = redis.pcall('zadd', list, unpack(added))
  if type(n) == 'number' and (new or redis.call('pttl', list) < tonumber(lease)) then
    redis.call('pexpire', list, 2 * lease)
  end
end
local function addReaders(lock, prefix, ids, ends, fields)
  for _, id in ipairs(ids) do fields[#fields + 1], fields[#fields + 2] = id, '1' end
  redis.call('hset', lock, unpack(fields))
  for _, id in ipairs(ids) do
    redis.call('set', prefix .. id .. ':rwlock_timeout:1', '1', 'pxat', ends)
  end
end
local function startReading(lock, prefix, ids, lease)
  local list, ends = listOf(prefix), string.format('%.0f', clock() + lease)
  addReaders(lock, prefix, ids, ends, {'mode', 'read'})
  redis.call('pexpireat', lock, ends)
  redis.pcall('del', list)
  enlist(list, ids, ends, lease, true)
end
local readersFrom = 4000000000000000
local function companion(queue, prefix) return prefix .. string.match(queue, '(:.-):?$') end
local function sessionOf(id) return string.match(id, '^(.-):') or '' end
local function channelOf(queue, id)
  if publish == 'SPUBLISH' then return companion(queue, 'relock_grant') .. ':' .. sessionOf(id) end
  return 'relock_session:' .. sessionOf(id)
end
local heard = {} -- by channel
local function hears(queue, id, n)
  local channel = channelOf(queue, id)
  if heard[channel] == nil then
    heard[channel] = not counted or (n or redis.pcall('pubsub', numsub, channel)[2]) ~= 0
  end
  return heard[channel]
end
local function placeOf(id, claim) return claim == '5000' and id or id .. ' ' .. claim end
local function idOf(place) return string.match(place, '^%S+') or '' end
local function claimOf(place) return math.min(tonumber(string.match(place, ' (%d+)$') or 5000) or 5000, 5000) end
local function isPlace(text) return isHold(idOf(text)) end
local function isWriter(place) return string.find(place, ':write', 1, true) end
local function isReader(queue, place)
  return string.find(queue, 'relock_rwqueue', 1, true) == 1 and not isWriter(place)
end
local function arrive(queue, place)
  local last = tonumber(redis.call('zrange', queue, -1, -1, 'withscores')[2]) or 0
  local alone = last <= 0
  if last >= readersFrom then last = last - readersFrom end
  local score = time[1] * 1000000 + time[2]
  if last < readersFrom then score = math.max(score, last + 1) end
  local behind = isReader(queue, place) and readersFrom or 0
  redis.call('zadd', queue, 'nx', string.format('%.0f', score + behind), place)
  if math.floor(last / 1000000) ~= tonumber(time[1]) then redis.call('pexpire', queue, '15000') end
  if score % 64 == 0 and redis.call('zcard', queue) > 32 then
    local long = string.rep('-', 65)
    redis.call('zadd', queue, '0', long)
    redis.call('zrem', queue, long)
  end
  return alone
end
local function want(lock, id)
  redis.pcall('publish', 'relock_session:' .. sessionOf(id), 'wanted ' .. id .. ' ' .. lock)
end
local function firstOf(queue, call)
  return (call or redis.call)('zrangebyscore', queue, '(0', '+inf', 'withscores', 'limit', 0, 2)
end
local function firstPlace(queue) return firstOf(queue)[1] end
local function tellFirst(queue)
  local first = firstOf(queue, redis.pcall)[1]
  if first then redis.call(publish, channelOf(queue, first), 'look ' .. idOf(first)) end
end
local function standBack(queue, places)
  if #places == 0 then return end
  for i = 1, #places, 2 do places[i] = '-' .. places[i] end
  many('zadd', queue, places)
  local many = redis.call('zcount', queue, '-inf', '(0') - 10000
  if many > 0 then redis.call('zremrangebyrank', queue, 0, many - 1) end
end
local function comeBack(queue, place, score)
  if tonumber(score) >= 0 then return end
  score = string.sub(score, 2)
  if tonumber(score) >= 1 and not hears(queue, place) then
    score = string.format('%.17g', score / 10000000000000000)
  end
  redis.call('zadd', queue, score, place)
end
local unrecorded = false -- the user may not write relock_seen: then nobody counts as silent
local function looked(queue, id)
  local seen, now = companion(queue, 'relock_seen'), clock()
  unrecorded = type(redis.pcall('zadd', seen, string.format('%.0f', now), sessionOf(id))) == 'table'
  if unrecorded then return end
  redis.call('zremrangebyscore', seen, '-inf', string.format('%.0f', now - 4000))
  redis.call('pexpire', seen, '5000')
end
local function silent(queue)
  local now, seen, lately = clock(), companion(queue, 'relock_seen'), {}
  local function recent(ms) return ms > now - 4000 and ms < now + 4000 end -- the clock may have stepped back
  return function(place, score)
    local came, session = tonumber(score), sessionOf(place)
    if came >= readersFrom then came = came - readersFrom end
    if unrecorded or recent(came / 1000) then return false end
    if lately[session] == nil then
      local at = redis.pcall('zscore', seen, session)
      lately[session] = at and (type(at) == 'table' or recent(tonumber(at)))
    end
    return not lately[session]
  end
end
local function passSilent(queue)
  local all = redis.pcall('zrangebyscore', queue, '(0', '+inf', 'withscores')
  if #all == 0 then return end
  local back, isSilent = {}, silent(queue)
  for i = 1, #all, 2 do
    if isSilent(all[i], all[i + 1]) then back[#back + 1], back[#back + 2] = all[i + 1], all[i] end
  end
  standBack(queue, back)
end
local function nextPlace(queue, asks, first, isSilent)
  local some = first or firstOf(queue)
  while #some > 0 do
    local back, found, reader, more = {}, nil, false, false
    for i = 1, #some, 2 do
      local place, score = some[i], some[i + 1]
      local amongWriters = tonumber(score) > 1000000 and tonumber(score) < readersFrom
      if not isPlace(place) or amongWriters and isReader(queue, place) then
        redis.call('zrem', queue, place)
      else
        reader = isReader(queue, place)
        if reader then break end
        if asks and asks[place] or tonumber(score) < 1
          or hears(queue, place) and not (isSilent and isSilent(place, score)) then
          found, more = place, some[i + 2] ~= nil
          break
        end
        back[#back + 1], back[#back + 2] = score, place
      end
    end
    standBack(queue, back)
    if found or reader then return found, more end
    some = redis.call('zrangebyscore', queue, '(0', '+inf', 'withscores', 'limit', 0, 100)
  end
end
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
local function grant(q, leaving, asks, first)
  local place, more = nextPlace(q.queue, asks, first)
  if not place then return false end
  local token, text = fence(q.fence)
  local id, claim, channel = idOf(place), claimOf(place), channelOf(q.queue, place)
  if not token then
    redis.call(publish, channel, 'look ' .. id)
    return false, text
  end
  redis.call('zrem', q.queue, place)
  if q.prefix then
    redis.call('hset', q.lock, 'mode', 'write', id, '1')
  else
    redis.call('hset', q.lock, id, '1')
  end
  many('hdel', q.lock, leaving)
  redis.call('pexpire', q.lock, claim)
  if not (asks and asks[place]) then
    redis.call(publish, channel, 'granted ' .. id .. ' ' .. text .. (more and ' +' or ' ') .. claim .. ' ' .. q.lock)
  end
  return place, token
end
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
local q = {lock = lock, fence = KEYS[2], queue = queue, prefix = prefix}
local waits, place = ARGV[3] == '1', placeOf(id, ARGV[4])
local mode = prefix and redis.pcall('hget', lock, 'mode')
local ttl = redis.call('pttl', lock)
if ttl == -2 or mode == 'read' and removeDead(q) then
  local first = firstOf(queue, redis.pcall)
  if first.err then return redis.error_reply(first.err) end
  local wait = math.min(leftFor(queue, waits), 2)
  if waits and (first[1] or wait > 0) then arrive(queue, place) end
  if wait > 0 then return -1 - wait end -- the first of the queue learns at its look that it must listen
  local given, bad = false, nil
  if first[1] then given, bad = handOver(q, {}, false, {[place] = true}) end
  if not given then return bad and redis.error_reply(bad) or take() end
  ttl = redis.call('pttl', lock)
end
local no, holder, n = foreign(lock)
if holder == id or n ~= 1 and redis.pcall('hexists', lock, id) == 1 then
  if ttl < tonumber(lease) then redis.call('pexpire', lock, lease) end
  return lastToken(KEYS[2]) or (fence(KEYS[2]))
end
if no then return no end
local first, theirs = waits and arrive(queue, place), redissonHolds(q, mode, holder)
if first and holder and mode ~= 'read' and not theirs then want(lock, holder) end
return -1 - (theirs and 2 or ttl) -- as above
