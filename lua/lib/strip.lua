-- strip ends a lock with the hold ids that it still has: it deletes the key. If an application
-- has added fields to it (bare is false), it removes only what is the lock's.

local function strip(lock, holds, bare)
  if bare then
    redis.call('del', lock)
    return
  end
  redis.call('hdel', lock, 'mode')
  for n = 1, #holds, 1000 do
    redis.call('hdel', lock, unpack(holds, n, math.min(n + 999, #holds)))
  end
end
