--!df flags=allow-undeclared-keys
-- Ends a write hold, or the intent of a writer that gives up. If its owner still reads, the
-- lock goes on in read mode with the lease of the reader. The readers' turn then lasts as
-- long as their intents: no writer could acquire the lock in that time anyway.
--
--   KEYS   lock, intents
--   ARGV   field of the hold
--          channel of the lock
--          PUBLISH or SPUBLISH
--          length of the readers' turn (ms)
--          prefix of the rwlock_timeout keys
--   reply  number of subscribers woken, or -1 if there was no such hold
--
-- Sent twice: the second finds nothing.

-- include: intents
-- include: leases
-- include: strip
-- include: wake

local had, downgraded = redis.call('hdel', KEYS[1], ARGV[1]) == 1, false
if had then
  local longest, dead, bare = 0, {}, true
  if redis.call('hlen', KEYS[1]) > 1 then
    local all = {leases(KEYS[1], ARGV[5])}
    longest, dead, bare = all[1], all[3], all[4]
  end
  if longest > 0 then
    downgraded = true
    redis.call('hset', KEYS[1], 'mode', 'read')
    redis.call('pexpire', KEYS[1], longest)
  else
    strip(KEYS[1], dead, bare)
  end
end
local mine = 'w:' .. ARGV[1]
local _, readers, _, any = intents(KEYS[2], mine)
local waited = any and redis.call('hdel', KEYS[2], mine) == 1
if not had and not waited then return -1 end
if had and readers > 0 then
  intend(KEYS[2], 'turn', downgraded and readers or tonumber(ARGV[4]))
end
local told = wake(ARGV[3], ARGV[2])
return had and told or -1
