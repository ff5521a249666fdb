--!df flags=allow-undeclared-keys
-- Acquires the write side, or queues for it. It removes readers whose own leases have ended
-- although others keep the lock alive. lib/phases.lua describes the keys.
--
--   KEYS   lock, fence, queue
--   ARGV   field of the hold, lease (ms)
--          1 to queue if the lock is not granted, else 0
--          prefix of the rwlock_timeout keys
--          channel of the lock
--          claim (ms)
--   reply  as acquire.lua
--
-- Sent twice: as acquire.lua. The token is issued before the lock is acquired here as well.

-- include: beside
-- include: fence

local id = ARGV[1]
local mode = redis.pcall('hget', KEYS[1], 'mode')
local function take()
  local token, bad = fence(KEYS[2])
  if not token then return redis.error_reply(bad) end
  redis.call('hset', KEYS[1], 'mode', 'write', id, '1')
  redis.call('pexpire', KEYS[1], ARGV[2])
  return token
end
if not mode and redis.pcall('exists', KEYS[1], KEYS[3], beside(KEYS[3], 'relock_yield')) == 0 then
  return take()
end

-- include: phases

local q = {lock = KEYS[1], fence = KEYS[2], queue = KEYS[3], prefix = ARGV[4], channel = ARGV[5], claim = ARGV[6]}
local place = placeOf(id, q.claim)
local mayQueue, free = ARGV[3] == '1', not mode and redis.call('exists', KEYS[1]) == 0
free = free or mode == 'read' and bury(q)
if free then
  local queued, bad = lastPlace(KEYS[3])
  if bad then return redis.error_reply(bad) end
  local wait = math.min(reserved(KEYS[3], mayQueue), 2)
  if mayQueue and (queued or wait > 0) then queueUp(q, place) end
  if wait > 0 then return -1 - wait end -- as acquire.lua
  if not queued or not handOver(q, {}, false, {[place] = true}) then return take() end
end
if redis.pcall('hexists', KEYS[1], id) == 1 then
  if redis.call('pttl', KEYS[1]) < tonumber(ARGV[2]) then redis.call('pexpire', KEYS[1], ARGV[2]) end
  return lastToken(KEYS[2]) or (fence(KEYS[2]))
end
do -- not at the top, where it would cost time that a free lock need not take
  -- include: foreign
  local no, holder = foreign(KEYS[1], mode)
  if no then return no end
  if mayQueue then queueUp(q, place) end
  return -1 - (beyond(q, mode, holder) and 2 or redis.call('pttl', KEYS[1]))
end
