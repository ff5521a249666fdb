-- The queue of a lock: a sorted set of places, one for each contender. A place is the hold id, and
-- behind a space the claim (ms) of the contender, for which it gets the lock at first, unless that
-- is 5000. A hold id is queued once and never again. What is no place is removed when it comes next.
-- The score is the state of a place:
--
--  >= 1  it waits; the order is that of arrival (µs)
--   < 1  it comes next, though its session hears no messages: it finds its grant when it looks
--   < 0  it stands back: its session was not there at its turn, or is silent. When its session looks at
--        the lock, it has its old place again
--
-- A place leaves the queue when it is granted the lock. If its session is dead or frozen, the claim lapses, and
-- somebody finds the lock free. By then all that live have looked, as waiters do at least every 1.7 s, and a sorted
-- set beside the queue, relock_seen, has when (ms) each session looked last. Those that were not seen for 4 s are
-- silent, and all their places stand back: the dead, whatever their number, cost one claim together.
--
-- Whether a session is there must be known before a grant is published. The reply of PUBLISH
-- would come too late: a subscriber that a failover has left on what is now a replica is not
-- counted, but gets the message and would believe it.
--
--   placeOf   returns the place of a hold id with a claim
--   claimOf   returns the claim of a place
--   idOf      returns the hold id of a place
--   enqueue   adds a place with a score
--   firstPlace, lastPlace  return the first and last place that do not stand back; lastPlace also
--             an error
--   firstOf   returns place and score of the first, or an error if it is to call redis.pcall
--   standBack takes pairs of score and place and has these stand back. Of those that stand back
--             10,000 are kept
--   comeBack  is called when a contender looks, with the score of its place
--   saw       records that the session of a place looks
--   silent    returns a function that tells, of a place and its score, whether its session is silent
--   passSilent  has the places of silent sessions stand back. It is called when a lock is found free that nobody
--             left free
--   nextPlace returns the first place whose session is there, or that is one of asks, whose calls
--             learn of a grant by the reply. Those before it stand back. first is what firstOf returned, if
--             that was asked before

-- include: channels
-- include: clock
-- include: holdid

local function placeOf(id, claim) return claim == '5000' and id or id .. ' ' .. claim end
local function idOf(place) return string.match(place, '^%S+') or '' end
local function isPlace(text) return isHold(idOf(text)) end
local function claimOf(place) return math.min(tonumber(string.match(place, ' (%d+)$') or 5000) or 5000, 5000) end

-- Redis keeps a small sorted set as a listpack, which ZADD walks twice. A set that has had a member
-- of more than 64 bytes is indexed from then on (zset-max-listpack-value).
local function enqueue(queue, place, score)
  redis.call('zadd', queue, 'nx', string.format('%.0f', score), place)
  redis.call('pexpire', queue, '15000')
  if score % 64 == 0 and redis.call('zcard', queue) > 32 then
    local long = string.rep('-', 65)
    redis.call('zadd', queue, '0', long)
    redis.call('zrem', queue, long)
  end
end

local function firstOf(queue, call)
  return (call or redis.call)('zrangebyscore', queue, '(0', '+inf', 'withscores', 'limit', 0, 1)
end
local function firstPlace(queue) return firstOf(queue)[1] end

local function lastPlace(queue)
  local last = redis.pcall('zrange', queue, -1, -1, 'withscores')
  return last[1] and tonumber(last[2]) > 0 and last[1], last.err
end

local function standBack(queue, places)
  for i = 1, #places, 2 do places[i] = '-' .. places[i] end
  for n = 1, #places, 1000 do
    redis.call('zadd', queue, 'xx', unpack(places, n, math.min(n + 999, #places)))
  end
  local many = redis.call('zcount', queue, '-inf', '(0') - 10000
  if many > 0 then redis.call('zremrangebyrank', queue, 0, many - 1) end
end

local function comeBack(queue, place, score)
  if tonumber(score) < 0 then
    score = string.sub(score, 2)
    local deaf = tonumber(score) >= 1 and not hears(queue, place)
    if deaf then score = string.format('%.17g', score / 10000000000000000) end
    redis.call('zadd', queue, score, place)
  end
end

local function saw(queue, place)
  local seen, now = beside(queue, 'relock_seen'), clock()
  if type(redis.pcall('zadd', seen, string.format('%.0f', now), sessionOf(place))) == 'table' then return end
  redis.call('zremrangebyscore', seen, '-inf', string.format('%.0f', now - 4000))
  redis.call('pexpire', seen, '5000')
end

local function silent(queue)
  local now, lately = clock(), {}
  local from, to = now - 4000, now + 4000 -- the clock may have stepped back
  local seen = redis.pcall('zrangebyscore', beside(queue, 'relock_seen'), from, to)
  for _, session in ipairs(seen) do lately[session] = true end
  return function(place, score)
    local came = tonumber(score) / 1000
    if came >= 4000000000000 then came = came - 4000000000000 end -- a reader
    return not (seen.err or lately[sessionOf(place)] or came > from and came < to)
  end
end

local function passSilent(queue)
  local all = redis.pcall('zrangebyscore', queue, '(0', '+inf', 'withscores')
  if #all == 0 then return end
  local back, isSilent = {}, silent(queue)
  for i = 1, #all, 2 do
    if isSilent(all[i], all[i + 1]) then back[#back + 1], back[#back + 2] = all[i + 1], all[i] end
  end
  if #back > 0 then standBack(queue, back) end
end

local function nextPlace(queue, asks, first)
  local back, found
  local some = first or firstOf(queue)
  repeat
    back = {}
    for i = 1, #some, 2 do
      local place = some[i]
      if not isPlace(place) then
        redis.call('zrem', queue, place)
      elseif tonumber(some[i + 1]) < 1 or asks and asks[place] or hears(queue, place) then
        found = place
      end
      if found then break end
      back[#back + 1] = some[i + 1]
      back[#back + 1] = place
    end
    if #back > 0 then standBack(queue, back) end
    if not found then some = redis.call('zrangebyscore', queue, '(0', '+inf', 'withscores', 'limit', 0, 100) end
  until found or #some == 0
  return found
end
