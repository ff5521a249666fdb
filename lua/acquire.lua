--!df flags=allow-undeclared-keys
-- Acquires a lock for one: a Mutex, a FairMutex or the write side of a read-write lock, if it is free and nobody queues
-- for it; or queues. Whoever finds the lock free hands it to the next of the queue, and removes readers whose own
-- leases have ended although others keep the lock alive.
--
--   KEYS   lock, fence, queue
--   ARGV   hold id, of a writer with :write; lease (ms)
--          1 to queue if the lock is not granted, 0 not to
--          claim (ms)
--          prefix of the rwlock_timeout keys, empty for a lock without readers
--   reply  > 0  the fencing token; this hold id holds the lock
--            0  another holds the lock, without expiry
--          < 0  another holds the lock; -1 minus the time (ms) after which to look again
--          NOTLOCK, an error: the key is no lock (lib/lock.lua)
--
-- Whoever queues as the first tells the holder that the lock is wanted; readers are not told.
--
-- Sent twice: the second finds the hold of this id, renews its lease and returns the same token, which nobody else can
-- have changed meanwhile; or it finds its place in the queue. But if it came after the first hold or place had ended,
-- it would queue again, and an old grant could be mistaken for a new one. So a call that queues is never sent again.
--
-- The token is issued first, so that nothing is acquired if that fails.

-- needs: fence

local lock, queue, id, lease = KEYS[1], KEYS[3], ARGV[1], ARGV[2]
local prefix = ARGV[5] ~= '' and ARGV[5] or nil
local function take()
  local token, bad = fence(KEYS[2], lease)
  if not token then return redis.error_reply(bad) end
  if prefix then redis.call('hset', lock, 'mode', 'write', id, '1') else redis.call('hset', lock, id, '1') end
  redis.call('pexpire', lock, lease)
  return token
end
if redis.pcall('exists', lock, queue, 'relock_yield' .. string.sub(KEYS[2], 13)) == 0 then return take() end

-- needs: lock, readers, places, turns, grant, phases

local q = {lock = lock, fence = KEYS[2], queue = queue, prefix = prefix}
local waits, place = ARGV[3] == '1', placeOf(id, ARGV[4])
local mode = prefix and redis.pcall('hget', lock, 'mode')
local ttl = redis.call('pttl', lock)
if ttl == -2 or mode == 'read' and removeDead(q) then
  local first = firstOf(queue, redis.pcall)
  if first.err then return redis.error_reply(first.err) end
  local wait = math.min(leftFor(queue, waits), 2)
  if waits and (first[1] or wait > 0) then arrive(queue, place) end
  if wait > 0 then return -1 - wait end -- the first of the queue learns at its look that it must listen
  local given, bad = false, nil
  if first[1] then given, bad = handOver(q, {}, false, {[place] = true}) end
  if not given then return bad and redis.error_reply(bad) or take() end
  ttl = redis.call('pttl', lock)
end
local no, holder, n = foreign(lock)
if holder == id or n ~= 1 and redis.pcall('hexists', lock, id) == 1 then
  if ttl < tonumber(lease) then redis.call('pexpire', lock, lease) end
  return lastToken(KEYS[2]) or (fence(KEYS[2]))
end
if no then return no end
local first, theirs = waits and arrive(queue, place), redissonHolds(q, mode, holder)
if first and holder and mode ~= 'read' and not theirs then want(lock, holder) end
return -1 - (theirs and 2 or ttl) -- as above
