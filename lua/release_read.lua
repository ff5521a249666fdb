--!df flags=allow-undeclared-keys
-- Ends the read hold of a process, or the intent of a reader that gives up. If others still
-- read, the lock keeps the longest of their leases, as in Redisson.
--
--   KEYS   lock, rwlock_timeout key of the hold, intents
--   ARGV   hold id
--          channel of the lock
--          PUBLISH or SPUBLISH
--          prefix of the rwlock_timeout keys
--   reply  number of subscribers woken, or -1 if there was no such hold
--
-- Sent twice: the second finds nothing.
--
-- If the slot is being moved and only the list of readers is on another node, the list would
-- keep the reader: the script fails before it has done anything, and the hold is released key
-- by key.

-- include: intents
-- include: leases
-- include: list
-- include: strip

local list = listOf(ARGV[4])
local enlisted = redis.pcall('zrem', list, ARGV[1])
if type(enlisted) == 'table' and string.find(enlisted.err, 'access a non local key', 1, true) then return enlisted end
enlisted = enlisted == 1
if redis.call('hdel', KEYS[1], ARGV[1]) == 0 then
  redis.call('hdel', KEYS[3], 'r:' .. ARGV[1])
  redis.call('del', KEYS[2])
  return -1
end
local most, readers, dead, bare = 0, redis.call('hlen', KEYS[1]) - 1, nil, true
if readers > 0 then
  if enlisted then most = last(list, ARGV[4], readers) end
  if most <= 0 then
    if redis.call('hget', KEYS[1], 'mode') == 'write' then
      redis.call('del', KEYS[2])
      return 0
    end
    local longest, others, keyless, only = leases(KEYS[1], ARGV[4])
    if near(KEYS[1], KEYS[2]) then others = 0 end
    if #keyless > 0 then longest = math.max(longest, others, kept(KEYS[3])) end
    most, dead, bare = longest, keyless, only
  end
end
redis.call('del', KEYS[2])
if most > 0 then
  redis.call('pexpire', KEYS[1], most)
  return 0
end
strip(KEYS[1], dead, bare)
return redis.call(ARGV[3], ARGV[2], '0')
