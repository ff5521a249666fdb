--!df flags=allow-undeclared-keys
-- Ends a write hold, or a place in the queue. All readers that queue have their turn, else the next writer. If its
-- owner still reads, the lock goes on in read mode with the lease of the reader.
--
--   KEYS   lock, queue, fence
--   ARGV   field of the hold
--          channel of the lock
--          prefix of the rwlock_timeout keys
--          claim (ms)
--          place to queue in the same step; none if it is missing
--   reply  as release.lua
--
-- Sent twice: the second finds nothing, and queues nobody.

local lock, queue, id, again = KEYS[1], KEYS[2], ARGV[1], ARGV[5]
local held = redis.pcall('hexists', lock, id)
local count = held == 1 and redis.call('hlen', lock)
local others = count and redis.pcall('exists', queue, 'relock_yield' .. string.sub(KEYS[3], 13))
local told
if count == 2 and not again and others == 0 then -- most often nobody waits
  redis.call('del', lock)
  told = redis.call(publish, ARGV[2], '1')
  if told == 0 then return 0 end
end

-- needs: fence, lock, readers, places, turns, grant, phases

if told then
  redis.call(publish, ARGV[2], '00')
  leaves(queue)
  return told
end
local q = {lock = lock, queue = queue, fence = KEYS[3], prefix = ARGV[3]}
local first = firstOf(queue, redis.pcall)
if held ~= 1 then
  if held ~= 0 and not wrongType(held) then return held end
  local place = placeOf(id, ARGV[4])
  if redis.pcall('zrem', queue, place) ~= 1 then return held == 0 and -1 or held end
  if first[1] == place then tellFirst(queue) end
  if redis.pcall('hget', lock, 'mode') == 'read' and not stoppedBy(q) then letReadersIn(q, 'read') end
  return 0
end
local bad = first.err
if again and not bad then arrive(queue, again) end
local longest, leaving, bare, _ = 0, {}, true, nil
if count > 2 then longest, _, leaving, bare = leases(lock, ARGV[3], id) end
if longest > 0 then
  redis.call('hset', lock, 'mode', 'read')
  redis.call('hdel', lock, id)
  redis.call('pexpire', lock, longest)
  if not bad then letReadersIn(q, 'read') end
  return bad and redis.error_reply('DAMAGED ' .. bad) or notify(queue, '1')
end
leaving[#leaving + 1] = id
if bare and not bad then
  local winner, token = passOn(q, leaving, true, again and {[again] = true}, not again and others == 1)
  if winner then return winner == again and token or 0 end
  bad = token
end
strip(lock, leaving, bare)
told = notify(queue, '1')
return bad and redis.error_reply('DAMAGED ' .. bad) or told
