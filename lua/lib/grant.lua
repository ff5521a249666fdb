-- grant gives a lock to the next of its queue, for its claim, and tells the winner, unless that is one of asks, which
-- must then start its lease. It returns the winner's place and token; false if there is none, and an error if no
-- token can be issued, of which the winner learns when it looks. leaving are the holds that end with that, and first
-- as for nextPlace. q has the lock, its fence and queue; a read-write lock has a prefix as well.
--
-- release ends an exclusive hold: it grants the lock, or leaves it free. Without a hold, it ends the place of that
-- id. again is a place to queue in the same step, and alone as for leaves. It returns what release.lua replies.
--
-- The lock always has a holder: the next one is stored before the last one is removed. In a slot that is being moved,
-- a key that has become empty is a key that has moved. What is ours ends first, whatever the keys beside the lock
-- hold.

local function grant(q, leaving, asks, first)
  local place = nextPlace(q.queue, asks, first)
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
    redis.call(publish, channel, 'granted ' .. id .. ' ' .. text .. ' ' .. claim .. ' ' .. q.lock)
  end
  return place, token
end

local function release(q, id, claim, again, alone)
  local held = redis.pcall('hexists', q.lock, id)
  local first = firstOf(q.queue, redis.pcall)
  if held ~= 1 then
    if held ~= 0 and not wrongType(held) then return held end
    local place = placeOf(id, claim)
    if redis.pcall('zrem', q.queue, place) ~= 1 then return -1 end
    if first[1] == place then tellFirst(q.queue) end
    return 0
  end
  local bad = first.err
  if not bad then
    if again then
      arrive(q.queue, again)
      if not first[1] then first = firstOf(q.queue) end
    end
    if not leaves(q.queue, first[1], alone and first[1]) then
      local winner, token = grant(q, {id}, again and {[again] = true}, first)
      if winner then return winner == again and token or 0 end
      bad = token
    end
  end
  redis.call('hdel', q.lock, id)
  local told = notify(q.queue, '0')
  return bad and redis.error_reply('DAMAGED ' .. bad) or told
end
