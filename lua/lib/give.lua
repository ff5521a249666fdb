-- give makes a hold id that has left the queue the holder of a lock, for a claim, and returns its
-- token. It tells the winner, unless that asks. leaving is the hold that ends with that, if any;
-- channel is that of the winner, if it is known.
--
-- The lock always has a holder: the next one is stored before the last one is removed. In a slot
-- that is being moved, a key that has become empty is a key that has moved. The grant is
-- published last.

-- include: fence
-- include: next

local function give(lock, fencekey, queue, claim, id, asks, leaving, channel)
  local token, text = fence(fencekey)
  redis.call('hset', lock, id, '1')
  if leaving then redis.call('hdel', lock, leaving) end
  redis.call('pexpire', lock, claim)
  if not asks then
    redis.call(publish, channel or channelOf(queue, id), 'granted ' .. id .. ' ' .. text .. ' ' .. claim .. ' ' .. lock)
  end
  return token
end
