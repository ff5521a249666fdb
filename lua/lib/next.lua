-- nextThere removes and returns the first contender of a queue whose session is there: it is
-- subscribed to its channel of grants, or asks keeps its hold id because it calls itself. If the
-- server does not know all subscribers, that is the first contender.
--
-- Whether a session is there must be known before the grant is published. The reply of
-- PUBLISH would come too late: a subscriber that a failover has left on what is now a replica
-- is not counted, but gets the message and would believe it.
--
-- The contenders of an absent session keep their places at the head of the queue, because it may
-- only have lost its connection. A hash beside the queue, which expires like the queue, keeps
-- the time (ms) since when each session has been absent. A probe deletes that time. If none comes
-- for 5 s, at least twice the interval between two probes, the session loses its places. It loses
-- them at once if the Redis user has no right to that hash, hence pcall.
--
-- channelOf returns the channel of grants of a hold id: that of its session, but in a cluster
-- with sharded pub/sub one in the slot of the lock.

-- include: beside
-- include: pubsub

local function sessionOf(id) return string.match(id, '^(.-):') or '' end

local function channelOf(queue, id)
  if publish == 'SPUBLISH' then return beside(queue, 'relock_grant') .. ':' .. sessionOf(id) end
  return 'relock_session:' .. sessionOf(id)
end

-- listeners returns nil where the server does not say it.
local function listeners(channel)
  local n = redis.pcall('pubsub', numsub, channel)
  return n[2]
end

local function nextThere(queue, asks)
  local first = redis.call('zpopmin', queue)
  local id = first[1]
  if not id then return nil end
  local there = {}
  local function here(waiter)
    if not counted or asks and asks[waiter] then return true end
    local session = sessionOf(waiter)
    if there[session] == nil then there[session] = listeners(channelOf(queue, waiter)) ~= 0 end
    return there[session]
  end
  if here(id) then return id end
  redis.call('zadd', queue, first[2], id)
  redis.call('pexpire', queue, '15000')
  local absent = beside(queue, 'relock_absent')
  local t = redis.call('time')
  local now = t[1] * 1000 + math.floor(t[2] / 1000)
  local lost = {}
  local function loses(session)
    local since = tonumber(redis.pcall('hget', absent, session) or nil)
    if since and now - since >= 5000 then
      redis.pcall('hdel', absent, session)
      return true
    end
    if since then return false end
    local set = redis.pcall('hset', absent, session, string.format('%.0f', now))
    redis.pcall('pexpire', absent, '15000')
    return type(set) ~= 'number'
  end
  local passed = 0
  while true do
    local some = redis.call('zrange', queue, passed, passed + 99)
    for _, waiter in ipairs(some) do
      if here(waiter) then
        redis.call('zrem', queue, waiter)
        return waiter
      end
      local session = sessionOf(waiter)
      if lost[session] == nil then lost[session] = loses(session) end
      if lost[session] then redis.call('zrem', queue, waiter) else passed = passed + 1 end
    end
    if #some < 100 then return nil end
  end
end
