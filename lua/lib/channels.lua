-- sessionOf returns the session of a hold id, or of a place in a queue. channelOf returns the
-- channel on which it hears of grants: that of its session, but in a cluster with sharded pub/sub
-- one in the slot of the lock. hears returns whether its session listens there; if the server does
-- not know, it does. A script asks once for each channel; n is the answer, if it has asked already.

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

local heard = {} -- by channel
local function hears(queue, id, n)
  local channel = channelOf(queue, id)
  if heard[channel] == nil then heard[channel] = not counted or (n or listeners(channel)) ~= 0 end
  return heard[channel]
end
