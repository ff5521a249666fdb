-- The queue of a lock: a sorted set of places, one for each contender. A place is the hold id, and behind a space the
-- claim (ms) of the contender, for which it gets the lock at first, unless that is 5000. A hold id is queued once and
-- never again. The score is the state of a place:
--
--  >= 1  it waits. The order is that of arrival, by the server's clock (µs). Readers are behind readersFrom, since
--  they
--        are let in together; those that come before the writers have scores from 1 on (lib/phases.lua)
--   < 1  it comes next, though its session hears no messages: it finds its grant when it looks
--   < 0  it stands back, with its old score below 0: its session was not there at its turn, or is silent. When its
--        session looks at the lock, it has its old place again. 10,000 of these are kept
--
-- A place leaves the queue when it is granted the lock. If its session is dead or frozen, the claim lapses, and
-- somebody finds the lock free. By then all that live have looked, as waiters do at least every 1.7 s, and the sorted
-- set relock_seen has when (ms) each session looked last. Those that were not seen for 4 s are silent, and all their
-- places stand back: the dead, whatever their number, cost one claim together.
--
-- Whether a session is there must be known before a grant is published: a subscriber that a failover has left on what
-- is now a replica is not counted, but gets the message and would believe it. Where the server knows only its own
-- subscribers (counted is false), all are there.
--
--   companion   returns the name of a key or channel that belongs to a queue, whose name may have one colon more
--   channelOf   returns the channel on which the session of a place hears of grants
--   hears       returns whether it listens there; n is the answer, if the script has asked the server already
--   placeOf, idOf, claimOf  make a place, and return its parts
--   arrive      adds a place, and returns whether nobody else waited
--   want        tells the session of a hold that somebody waits for its lock
--   firstOf     returns place and score of the first that does not stand back, and of the next; firstPlace its place
--   tellFirst   has the first look at the lock
--   standBack   takes pairs of score and place and has these stand back
--   comeBack    is called when a contender looks, with the score of its place
--   looked      records that a session looks, by one of its hold ids
--   silent      returns a function that tells, of a place and its score, whether its session is silent
--   passSilent  has the places of silent sessions stand back
--   nextPlace   returns the first place whose session is there, or that is one of asks, whose calls learn of a grant
--               by the reply; nil if a reader comes first. Those before it stand back, with isSilent the silent as
--               well. first is what firstOf returned, if the script has asked already. nextPlace also returns whether
--               others wait behind it

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

-- The queue expires 15 s after somebody has looked, or arrived in another second than the one before. Redis keeps a
-- small sorted set as a listpack, which ZADD walks twice. A set that has had a member of more than 64 bytes is
-- indexed from then on (zset-max-listpack-value).
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
