-- wake wakes all waiters of a read-write lock. The message 1 wakes those waiters of Redisson
-- that are asleep. One that has seen the lock held and is about to sleep would miss it and
-- sleep for the whole lease; it finds the second message, which is kept for it. Redisson
-- reads 00 as 0, and nobody else reacts to it.

-- include: pubsub

local function wake(channel)
  local told = redis.call(publish, channel, '1')
  if told > 0 then redis.call(publish, channel, '00') end
  return told
end
