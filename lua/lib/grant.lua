-- grant gives a lock to the next of its queue, for its claim, and tells the winner, unless that is one of asks, which
-- must then start its lease. It returns the winner's place and token; false if there is none, and an error if no token
-- can be issued, of which the winner learns when it looks. A + before the claim says that others wait behind it.
-- leaving are the holds that end with that, and first as for nextPlace. q has the lock, its fence and queue; a
-- read-write lock has a prefix as well.
--
-- The lock always has a holder: the next one is stored before the last one is removed. In a slot that is being moved, a
-- key that has become empty is a key that has moved.

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
