--!df flags=allow-undeclared-keys
-- Acquires the read side for a process, queues for it, or asks whether more readers of the process may join the hold
-- that it has. lib/readers.lua describes the keys.
--
--   KEYS   lock, queue, rwlock_timeout key of the hold, fence
--   ARGV   hold id, lease (ms)
--          field of the write hold of the same owner, or the empty string
--          hold id to join, or the empty string
--          1 to queue if neither is possible, else 0
--          prefix of the rwlock_timeout keys
--          claim (ms)
--   reply    1  held, and more readers of this process may join
--            2  held, but a writer waits
--            3  not held: join the other hold
--            4  not held, and neither is the other hold
--            0  not held; the holder has no expiry
--          < 0  not held; -1 minus the time to wait (ms)
--          NOTLOCK, an error: the key is no lock (lib/lock.lua)
--
-- Whoever queues as the first tells a writer that the lock is wanted.
--
-- Sent twice: the second finds the hold, and its lease starts again, or the place in the queue. But a call that
-- queues is never sent again; see acquire.lua.

-- needs: fence, lock, readers

local lock, queue, id, lease, prefix = KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[6]
local mode = redis.pcall('hget', lock, 'mode')
if not mode and redis.pcall('exists', lock, queue, 'relock_yield' .. string.sub(KEYS[4], 13)) == 0 then
  startReading(lock, prefix, {id}, lease)
  return 1
end

-- needs: places, turns, grant, phases

local q = {lock = lock, queue = queue, fence = KEYS[4], prefix = prefix}
if type(mode) == 'table' then return wrongType(mode) and redis.error_reply('NOTLOCK type') or mode end
local waits, join, place = ARGV[5] == '1', ARGV[4] ~= '', placeOf(id, ARGV[7])
if join and redis.call('hexists', lock, ARGV[4]) == 0 then return 4 end
local first = firstPlace(queue)
local free = not mode and redis.call('exists', lock) == 0
if free then
  local wait = math.min(leftFor(queue, waits), 2)
  if waits and (first or wait > 0) then arrive(queue, place) end
  if wait > 0 then return -1 - wait end -- as acquire.lua
  local given, bad = false, nil
  if first then given, bad = handOver(q, {}, false, {[place] = true}) end
  if not given and bad then return redis.error_reply(bad) end
  if given then
    free, mode = false, redis.call('hget', lock, 'mode')
    first = firstPlace(queue)
  end
end
local held = mode and (redis.call('hexists', lock, id) == 1
  or ARGV[3] ~= '' and redis.call('hexists', lock, ARGV[3]) == 1)
local open = mode == 'read' and (held or not readersWait(queue, true))
if open and first and not isWriter(first) then -- others are coming in
  if waits and not (join or held) then arrive(queue, place) end
  letReadersIn(q, mode, {[place] = true})
  first = firstPlace(queue)
  held = held or redis.call('hexists', lock, id) == 1
end
if held or free or open and (not first or isWriter(first) and not stoppedBy(q)) then
  if join then return 3 end
  first = firstPlace(queue)
  local no = enter(q, mode or nil, {id}, lease)
  if no then return no end
  if first and not held then letReadersIn(q, 'read') end
  return first and 2 or 1
end
local no, holder = foreign(lock)
if no then return no end
local alone, theirs = waits and arrive(queue, place), redissonHolds(q, mode, holder)
if alone and holder and mode ~= 'read' and not theirs then want(lock, holder) end
return -1 - (theirs and 2 or redis.call('pttl', lock))
