--!df flags=allow-undeclared-keys
-- Ends the read hold of a process, or its place in the queue. The last reader gives the lock to the next writer. If
-- others still read, the lock keeps the longest of their leases, as in Redisson.
--
--   KEYS   lock, rwlock_timeout key of the hold, queue, fence
--   ARGV   hold id
--          channel of the lock
--          prefix of the rwlock_timeout keys
--          claim (ms)
--          hold id that reads on for a while, and that while (ms), as in release.lua
--   reply  number of subscribers woken (0 after a grant, and for a place in the queue), or -1 if there was neither
--          hold nor place; DAMAGED, an error, as release.lua
--
-- Sent twice: the second finds nothing.

local lock, queue, id, prefix, rest = KEYS[1], KEYS[3], ARGV[1], ARGV[3], ARGV[5]
local list = 'relock_readers:' .. string.sub(prefix, 1, -2)
local enlisted = redis.pcall('zrem', list, id)
local held = redis.pcall('hexists', lock, id)
local readers = held == 1 and redis.call('hlen', lock) - 2
local keys = readers == 0 and not rest and redis.pcall('exists', queue, 'relock_yield' .. string.sub(KEYS[4], 13))
local told
if keys == 0 then -- the last, and nobody waits
  redis.call('del', KEYS[2])
  redis.call('del', lock)
  told = redis.call(publish, ARGV[2], '0')
  if told == 0 then return 0 end
end

-- needs: fence, lock, readers, places, turns, grant, phases

if told then
  leaves(queue)
  return told
end
if held ~= 1 then
  if held ~= 0 and not wrongType(held) then return held end
  redis.call('del', KEYS[2])
  local place, first = placeOf(id, ARGV[4]), firstOf(queue, redis.pcall)[1]
  if redis.pcall('zrem', queue, place) ~= 1 then return held == 0 and -1 or held end
  if first == place then tellFirst(queue) end
  return 0
end
local most, leaving, bare = 0, {}, true
if rest and redis.call('hget', lock, 'mode') == 'read' then -- otherwise its owner writes on
  local no = enter({lock = lock, queue = queue, prefix = prefix}, 'read', {rest}, ARGV[6])
  if no then return no end
  readers = readers + 1
end
if readers > 0 then
  if enlisted == 1 then most = lastLease(list, prefix, readers) end
  if most <= 0 and redis.call('hget', lock, 'mode') == 'write' then
    most = -1
  elseif most <= 0 then
    local others
    most, others, leaving, bare = leases(lock, prefix, id)
    if #leaving > 0 then most = math.max(most, others, othersLive(prefix)) end
  end
end
redis.call('del', KEYS[2])
if most ~= 0 then
  redis.call('hdel', lock, id)
  if most > 0 then redis.call('pexpire', lock, most) end
  if rest then tellFirst(queue) end
  return 0
end
leaving[#leaving + 1] = id
local q = {lock = lock, queue = queue, fence = KEYS[4], prefix = prefix}
local given, bad = false, nil
if bare then given, bad = passOn(q, leaving, false, nil, firstOf(queue, redis.pcall), keys == 1) end
if given then return 0 end
strip(lock, leaving, bare)
told = notify(queue, '0')
return bad and redis.error_reply('DAMAGED ' .. bad) or told
