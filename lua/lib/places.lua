-- The queue of a lock: a sorted set of places, one for each contender. A place is the hold id, and
-- behind a space the claim (ms) of the contender, for which it gets the lock at first, unless that
-- is 5000. A hold id is queued once and never again. What is no place is removed when it comes next.
-- The score is the state of a place:
--
--  >= 1  it waits; the order is that of arrival (µs)
--   < 1  it comes next, though its session hears no messages: it finds its grant when it looks
--     0  it was granted the lock, and its session was not heard of since
--   < 0  it stands back: its session was not there at its turn, or a claim has lapsed. When its
--        session looks at the lock, it has its old place again
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
--   lastBehind  returns the score that the last of those that stand back had, 0 if there is none: who comes is
--             behind it, also after the clock has stepped back
--   firstOf   returns place and score of the first, or an error if it is to call redis.pcall
--   standBack takes pairs of score and place and has these stand back. Of those that stand back
--             10,000 are kept
--   comeBack  is called when a contender looks, with the score of its place
--   nextPlace returns the first place whose session is there, or that is one of asks, whose calls
--             learn of a grant by the reply. Those before it stand back. first is what firstOf returned, if
--             that was asked before

-- include: channels
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

local function lastBehind(queue)
  local score = -(tonumber(redis.call('zrange', queue, 0, 0, 'withscores')[2]) or 0)
  return score < 9007199254740992 and math.max(score, 0) or 0
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
