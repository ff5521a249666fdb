--!df flags=allow-undeclared-keys
-- Acquires the write side, or queues for it. It removes readers whose own leases have ended although others keep the
-- lock alive. lib/readers.lua describes the keys.
--
--   KEYS   lock, fence, queue
--   ARGV   field of the hold, lease (ms)
--          1 to queue if the lock is not granted, else 0
--          prefix of the rwlock_timeout keys
--          claim (ms)
--   reply  as acquire.lua
--
-- Sent twice: as acquire.lua. The token is issued before the lock is acquired here as well.

-- needs: fence

local lock, queue, id, lease = KEYS[1], KEYS[3], ARGV[1], ARGV[2]
local mode = redis.pcall('hget', lock, 'mode')
local function take()
  local token, bad = fence(KEYS[2])
  if not token then return redis.error_reply(bad) end
  redis.call('hset', lock, 'mode', 'write', id, '1')
  redis.call('pexpire', lock, lease)
  return token
end
if not mode and redis.pcall('exists', lock, queue, 'relock_yield' .. string.sub(KEYS[2], 13)) == 0 then
  return take()
end

-- needs: lock, readers, places, turns, grant, phases

local q = {lock = lock, fence = KEYS[2], queue = queue, prefix = ARGV[4]}
local waits, place = ARGV[3] == '1', placeOf(id, ARGV[5])
local free = not mode and redis.call('exists', lock) == 0
if free or mode == 'read' and removeDead(q) then
  local first = firstOf(queue, redis.pcall)
  if first.err then return redis.error_reply(first.err) end
  local wait = math.min(leftFor(queue, waits), 2)
  if waits and (first[1] or wait > 0) then arrive(queue, place) end
  if wait > 0 then return -1 - wait end -- as acquire.lua
  if not first[1] or not handOver(q, {}, false, {[place] = true}) then return take() end
end
if redis.pcall('hexists', lock, id) == 1 then
  if redis.call('pttl', lock) < tonumber(lease) then redis.call('pexpire', lock, lease) end
  return lastToken(KEYS[2]) or (fence(KEYS[2]))
end
local no, holder = foreign(lock)
if no then return no end
if waits then arrive(queue, place) end
return -1 - (redissonHolds(q, mode, holder) and 2 or redis.call('pttl', lock))
