--!df flags=allow-undeclared-keys
-- Ends a write hold, or a place in the queue. All readers that queue have their turn, else the
-- next writer. If its owner still reads, the lock goes on in read mode with the lease of the
-- reader.
--
--   KEYS   lock, queue, fence
--   ARGV   field of the hold
--          channel of the lock
--          PUBLISH or SPUBLISH
--          prefix of the rwlock_timeout keys
--          claim (ms)
--          1 if the server knows all subscribers of such a channel, else 0
--          field of a hold to queue in the same step; none if it is missing
--   reply  as release.lua
--
-- Sent twice: the second finds nothing, and queues nobody.

-- include: phases
-- include: strip

local q = {lock = KEYS[1], queue = KEYS[2], fence = KEYS[3], channel = ARGV[2], publish = ARGV[3],
  prefix = ARGV[4], claim = ARGV[5], counted = ARGV[6]}
local id = ARGV[1]
local held = redis.pcall('hexists', KEYS[1], id)
if held ~= 1 then
  -- include: wrongtype
  if held ~= 0 and not wrongType(held) then return held end
  if unqueue(q, id) == 0 then return held == 0 and -1 or held end
  if redis.pcall('hget', KEYS[1], 'mode') == 'read' and not firstWriter(q, nil, true) then letReadersIn(q, 'read') end
  return 0
end
local again = ARGV[7]
if again then queueUp(q, again) end
local longest, leaving, bare, _ = 0, {}, true, nil
if redis.call('hlen', KEYS[1]) > 2 then
  longest, _, leaving, bare = leases(KEYS[1], ARGV[4], id)
end
if longest > 0 then
  redis.call('hset', KEYS[1], 'mode', 'read')
  redis.call('hdel', KEYS[1], id)
  redis.call('pexpire', KEYS[1], longest)
  letReadersIn(q, 'read')
  return wake(ARGV[3], ARGV[2])
end
leaving[#leaving + 1] = id
if bare then
  local winner, token = handOver(q, leaving, true, again and {[again] = true})
  if winner then return winner == again and token or 0 end
end
strip(KEYS[1], leaving, bare)
return wakeTheirs(q, '1')
