--!df flags=allow-undeclared-keys
-- Ends a write hold, or a place in the queue. All readers that queue have their turn, else the
-- next writer. If its owner still reads, the lock goes on in read mode with the lease of the
-- reader.
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

-- include: pubsub

local id, again = ARGV[1], ARGV[5]
local held = redis.pcall('hexists', KEYS[1], id)
local count = held == 1 and redis.call('hlen', KEYS[1])
local told
local others = count and redis.pcall('exists', KEYS[2], 'relock_yield' .. string.sub(KEYS[3], 13))
if count == 2 and not again and others == 0 then -- most often nobody waits
  redis.call('del', KEYS[1])
  told = redis.call(publish, ARGV[2], '1')
  if told == 0 then return 0 end
end

-- include: phases
-- include: strip

local q = {lock = KEYS[1], queue = KEYS[2], fence = KEYS[3], channel = ARGV[2], prefix = ARGV[3], claim = ARGV[4]}
if told then
  redis.call(publish, q.channel, '00')
  yields(q.queue)
  return told
end
local front = firstOf(q.queue, redis.pcall)
if held ~= 1 then
  -- include: wrongtype
  if held ~= 0 and not wrongType(held) then return held end
  local place = placeOf(id, q.claim)
  if redis.pcall('zrem', q.queue, place) ~= 1 then return held == 0 and -1 or held end
  if front[1] == place then look(q.queue) end
  if redis.pcall('hget', KEYS[1], 'mode') == 'read' and not firstWriter(q, nil, true) then letReadersIn(q, 'read') end
  return 0
end
local bad = front.err
if again and not bad then queueUp(q, again) end
local longest, leaving, bare, _ = 0, {}, true, nil
if count > 2 then
  longest, _, leaving, bare = leases(KEYS[1], ARGV[3], id)
end
if longest > 0 then
  redis.call('hset', KEYS[1], 'mode', 'read')
  redis.call('hdel', KEYS[1], id)
  redis.call('pexpire', KEYS[1], longest)
  if not bad then letReadersIn(q, 'read') end
  return bad and redis.error_reply('DAMAGED ' .. bad) or leave(q.queue, '1')
end
leaving[#leaving + 1] = id
if bare and not bad then
  local winner, token = passOn(q, leaving, true, again and {[again] = true}, not again and others == 1)
  if winner then return winner == again and token or 0 end
  bad = token
end
strip(KEYS[1], leaving, bare)
told = leave(q.queue, '1')
return bad and redis.error_reply('DAMAGED ' .. bad) or told
