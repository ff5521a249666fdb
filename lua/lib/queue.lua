-- The queue of a lock that only one can hold; lib/places.lua describes it.
--
-- arrive adds a place. grant gives the lock to the next place, for its claim, and returns hold id,
-- token and place; nothing if there is none, or nil and an error if no token can be issued. It tells
-- the winner, unless that is one of asks, which must then start its lease. leaving is the hold that
-- ends with that, and first as for nextPlace.
--
-- The lock always has a holder: the next one is stored before the last one is removed. In a slot
-- that is being moved, a key that has become empty is a key that has moved. The grant is
-- published last.

-- include: fence
-- include: places

local function arrive(queue, place)
  local last = tonumber(redis.call('zrange', queue, -1, -1, 'withscores')[2]) or 0
  if last < 1 or last >= 9007199254740992 then
    local t = redis.call('time')
    last = t[1] * 1000000 + t[2]
  end
  enqueue(queue, place, last + 1)
end

local function grant(lock, fencekey, queue, asks, leaving, first)
  local place = nextPlace(queue, asks, first)
  if not place then return nil end
  local token, text = fence(fencekey)
  local id, claim = idOf(place), claimOf(place)
  if not token then
    redis.call(publish, channelOf(queue, place), 'look ' .. id) -- it learns of that
    return nil, text
  end
  redis.call('hset', lock, id, '1')
  if leaving then redis.call('hdel', lock, leaving) end
  redis.call('pexpire', lock, claim)
  redis.call('zrem', queue, place)
  if not (asks and asks[place]) then
    redis.call(publish, channelOf(queue, place), 'granted ' .. id .. ' ' .. text .. ' ' .. claim .. ' ' .. lock)
  end
  return id, token, place
end
