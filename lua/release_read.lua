--!df flags=allow-undeclared-keys
-- Ends the read hold of a process, or its place in the queue. The last reader gives the lock
-- to the next writer. If others still read, the lock keeps the longest of their leases, as
-- in Redisson.
--
--   KEYS   lock, rwlock_timeout key of the hold, queue, fence
--   ARGV   hold id
--          channel of the lock
--          prefix of the rwlock_timeout keys
--          claim (ms)
--   reply  number of subscribers woken (0 after a grant, and for a place in the queue), or
--          -1 if there was neither hold nor place; DAMAGED, an error, as release.lua
--
-- Sent twice: the second finds nothing.

-- include: pubsub

local id, list = ARGV[1], 'relock_readers:' .. string.sub(ARGV[3], 1, -2)
local enlisted = redis.pcall('zrem', list, id)
local held = redis.pcall('hexists', KEYS[1], id)
local readers = held == 1 and redis.call('hlen', KEYS[1]) - 2
local told
local keys = readers == 0 and redis.pcall('exists', KEYS[3], 'relock_yield' .. string.sub(KEYS[4], 13))
if keys == 0 then -- the last, and nobody waits
  redis.call('del', KEYS[2])
  redis.call('del', KEYS[1])
  told = redis.call(publish, ARGV[2], '0')
  if told == 0 then return 0 end
end

-- include: phases
-- include: strip

local q = {lock = KEYS[1], queue = KEYS[3], fence = KEYS[4], channel = ARGV[2], prefix = ARGV[3], claim = ARGV[4]}
if told then
  yields(q.queue)
  return told
end
if held ~= 1 then
  -- include: wrongtype
  if held ~= 0 and not wrongType(held) then return held end
  redis.call('del', KEYS[2])
  local place, first = placeOf(id, q.claim), firstOf(q.queue, redis.pcall)[1]
  if redis.pcall('zrem', q.queue, place) ~= 1 then return held == 0 and -1 or held end
  if first == place then look(q.queue) end
  return 0
end
local most, leaving, bare = 0, {}, true
if readers > 0 then
  if enlisted == 1 then most = last(list, ARGV[3], readers) end
  local writes = most <= 0 and redis.call('hget', KEYS[1], 'mode') == 'write'
  if writes then
    most = -1
  elseif most <= 0 then
    local longest, others, keyless, only = leases(KEYS[1], ARGV[3], id)
    if #keyless > 0 then longest = math.max(longest, others, kept(ARGV[3])) end
    most, leaving, bare = longest, keyless, only
  end
end
redis.call('del', KEYS[2])
if most ~= 0 then
  redis.call('hdel', KEYS[1], id)
  if most > 0 then redis.call('pexpire', KEYS[1], most) end
  return 0
end
leaving[#leaving + 1] = id
local given, bad = false, nil
if bare then given, bad = passOn(q, leaving, false, nil, keys == 1) end
if given then return 0 end
strip(KEYS[1], leaving, bare)
told = leave(q.queue, '0')
return bad and redis.error_reply('DAMAGED ' .. bad) or told
