--!df flags=allow-undeclared-keys
-- Ends a hold of acquire.lua and hands the lock to the next of the queue; readers that queue come before the next
-- writer. If nobody queues, it wakes waiters of Redisson. If the owner of a writer still reads, the lock goes on in
-- read mode with the lease of the reader. Without a hold, it ends the place in the queue.
--
--   KEYS   lock, queue, fence
--   ARGV   hold id, of a writer with :write
--          channel of the lock
--          claim (ms)
--          prefix of the rwlock_timeout keys, empty for a lock without readers
--          hold id that keeps the lock for a while, so that nothing renews it any more; none if it is missing
--          that while (ms)
--   reply    0, or the number of subscribers woken if the lock was left free
--            -1  there was neither hold nor place
--            DAMAGED, an error: the hold has ended, but a key beside the lock is something else
--
-- Sent twice: the second finds nothing. Hold ids are never used again, so it cannot end another
-- hold, however late it arrives.

local lock, queue, id, channel, rest = KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[5]
local prefix, named, message = ARGV[4] ~= '' and ARGV[4] or nil, string.sub(KEYS[3], 13), '0'
if prefix then message = '1' end
local others = redis.pcall('exists', queue, 'relock_yield' .. named, 'redisson_lock_queue' .. named)
local told
if others == 0 and not rest
  and (not prefix or redis.pcall('hlen', lock) == 2) then -- mostly nobody waits
  local had = redis.pcall('hdel', lock, id)
  if had ~= 1 then return had == 0 and -1 or had end
  if prefix then redis.call('del', lock) end
  told = redis.call(publish, channel, message)
  if told == 0 then return 0 end
end

-- needs: fence, lock, readers, places, turns, grant, phases

if told then
  if prefix then redis.call(publish, channel, '00') end
  leaves(queue)
  return told
end
local q = {lock = lock, queue = queue, fence = KEYS[3], prefix = prefix}
local held = redis.pcall('hexists', lock, id)
local first = firstOf(queue, redis.pcall)
if held ~= 1 then
  if held ~= 0 and not wrongType(held) then return held end
  local place = placeOf(id, ARGV[3])
  if redis.pcall('zrem', queue, place) ~= 1 then return held == 0 and -1 or held end
  if first[1] == place then tellFirst(queue) end
  if prefix and redis.pcall('hget', lock, 'mode') == 'read' and not stoppedBy(q) then letReadersIn(q, 'read') end
  return 0
end
local bad = first.err
local longest, leaving, bare, _ = 0, {}, true, nil
if prefix and redis.call('hlen', lock) > 2 then longest, _, leaving, bare = leases(lock, prefix, id) end
if longest > 0 then
  redis.call('hset', lock, 'mode', 'read')
  redis.call('hdel', lock, id)
  redis.call('pexpire', lock, longest)
  if not bad then letReadersIn(q, 'read') end
  return bad and redis.error_reply('DAMAGED ' .. bad) or notify(queue, message)
end
if rest then
  redis.call('hset', lock, rest, '1')
  redis.call('hdel', lock, id)
  redis.call('pexpire', lock, ARGV[6])
  return notify(queue, message)
end
leaving[#leaving + 1] = id
if bare and not bad then
  local winner, token = passOn(q, leaving, true, nil, first, others == 1)
  if winner then return 0 end
  bad = token
end
if prefix then strip(lock, leaving, bare) else redis.call('hdel', lock, id) end
told = notify(queue, message)
return bad and redis.error_reply('DAMAGED ' .. bad) or told
