-- Acquires an exclusive lock if it is free.
--
--   KEYS   lock, fence
--   ARGV   hold id, lease (ms)
--   reply  > 0  the fencing token; this hold id holds the lock
--            0  another holds the lock, without expiry
--          < 0  another holds the lock; -1 minus its time to live (ms)
--          NOTLOCK, an error: the key is no lock (lib/foreign.lua)
--
-- Sent twice: the second finds the hold of this id, renews its lease and returns the
-- same token. Nobody else can have changed the token while the lock was held.
--
-- The token is issued first, so that nothing is acquired if that fails.

-- include: fence

local ttl = redis.call('pttl', KEYS[1])
if ttl ~= -2 then
  local held = redis.pcall('hexists', KEYS[1], ARGV[1])
  if held ~= 1 then
    -- include: foreign
    return foreign(KEYS[1], held) or -1 - ttl
  end
  redis.call('pexpire', KEYS[1], ARGV[2])
  return tonumber(redis.call('get', KEYS[2])) or fence(KEYS[2])
end
local token = fence(KEYS[2])
redis.call('hset', KEYS[1], ARGV[1], '1')
redis.call('pexpire', KEYS[1], ARGV[2])
return token
