-- entered removes the intent of a reader that has acquired the lock. The readers' turn ends
-- with the last reader that waited.

-- include: intents

local function entered(key, mine, readers, turn)
  redis.call('hdel', key, mine)
  if turn > 0 and readers == 0 then redis.call('hdel', key, 'turn') end
end
