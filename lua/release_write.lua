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
--          field of a hold to queue in the same step; none if it is missing
--   reply  as release.lua
--
-- Sent twice: the second finds nothing, and queues nobody.

-- include: pubsub

local id, again = ARGV[1], ARGV[5]
local held = redis.pcall('hexists', KEYS[1], id)
local count = held == 1 and redis.call('hlen', KEYS[1])
local behind = count == 2 and not again and redis.call('zrange', KEYS[2], -1, -1)[1]
if behind and counted and string.sub(behind, -6) ~= ':write' then
  -- Most often they are few and there, and nobody of Redisson listens.
  -- include: next
  -- include: readers
  local ids = redis.call('zrangebyscore', KEYS[2], readersFrom, '+inf')
  if #ids > 0 and #ids <= 16 then
    local channels = {ARGV[2]}
    for i, reader in ipairs(ids) do channels[i + 1] = channelOf(KEYS[2], reader) end
    local n = redis.pcall('pubsub', numsub, unpack(channels))
    local there = n[2] == 0
    for i = 2, #channels do there = there and n[2 * i] > 0 end
    if there then
      redis.call('zrem', KEYS[2], unpack(ids))
      startReading(KEYS[1], ARGV[3], ids, ARGV[4])
      redis.call('hdel', KEYS[1], id)
      local more = (redis.call('exists', KEYS[2]) == 0 and ' 1 ' or ' 2 ') .. ARGV[4] .. ' ' .. KEYS[1]
      for i, reader in ipairs(ids) do redis.call(publish, channels[i + 1], 'granted ' .. reader .. more) end
      return 0
    end
  end
elseif behind and counted then
  -- Most often only writers queue, their first is there, and nobody of Redisson listens.
  -- include: give
  local first = redis.call('zpopmin', KEYS[2])
  local n = redis.pcall('pubsub', numsub, ARGV[2], channelOf(KEYS[2], first[1]))
  if n[4] and n[4] > 0 and n[2] == 0 and string.sub(first[1], -6) == ':write' then
    redis.pcall('hdel', beside(KEYS[2], 'relock_seen'), sessionOf(first[1]))
    give(KEYS[1], KEYS[3], KEYS[2], ARGV[4], first[1], false, id)
    return 0
  end
  redis.call('zadd', KEYS[2], first[2], first[1])
  redis.call('pexpire', KEYS[2], '15000')
end
local told
if count == 2 and not behind and not again then -- most often nobody waits, of Redisson either
  redis.call('del', KEYS[1])
  told = redis.call(publish, ARGV[2], '1')
  if told == 0 then return 0 end
end

-- include: phases
-- include: strip

local q = {lock = KEYS[1], queue = KEYS[2], fence = KEYS[3], channel = ARGV[2], prefix = ARGV[3], claim = ARGV[4]}
if told then
  redis.call(publish, q.channel, '00')
  reserve(q, 'nx')
  return told
end
if held ~= 1 then
  -- include: wrongtype
  if held ~= 0 and not wrongType(held) then return held end
  if unqueue(q, id) == 0 then return held == 0 and -1 or held end
  if redis.pcall('hget', KEYS[1], 'mode') == 'read' and not firstWriter(q, nil, true) then letReadersIn(q, 'read') end
  return 0
end
if again then queueUp(q, again) end
local longest, leaving, bare, _ = 0, {}, true, nil
if count > 2 then
  longest, _, leaving, bare = leases(KEYS[1], ARGV[3], id)
end
if longest > 0 then
  redis.call('hset', KEYS[1], 'mode', 'read')
  redis.call('hdel', KEYS[1], id)
  redis.call('pexpire', KEYS[1], longest)
  letReadersIn(q, 'read')
  return wake(ARGV[2])
end
leaving[#leaving + 1] = id
if bare and (behind or again or count > 2) then
  local winner, token = handOver(q, leaving, true, again and {[again] = true})
  if winner then return winner == again and token or 0 end
end
strip(KEYS[1], leaving, bare)
return wakeTheirs(q, '1')
