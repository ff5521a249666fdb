--!df flags=allow-undeclared-keys
-- Acquires the read side for a process, queues for it, or asks whether more readers of the
-- process may join the hold that it has. lib/phases.lua describes the keys.
--
--   KEYS   lock, queue, rwlock_timeout key of the hold, fence
--   ARGV   hold id, lease (ms)
--          field of the write hold of the same owner, or the empty string
--          hold id to join, or the empty string
--          1 to queue if neither is possible, else 0
--          prefix of the rwlock_timeout keys
--          channel of the lock
--          claim (ms)
--   reply    1  held, and more readers of this process may join
--            2  held, but a writer waits
--            3  not held: join the other hold
--            4  not held, and neither is the other hold
--            0  not held; the holder has no expiry
--          < 0  not held; -1 minus the time to wait (ms)
--          NOTLOCK, an error: the key is no lock (lib/foreign.lua)
--
-- Sent twice: the second finds the hold, and its lease starts again, or the place in the queue.
-- But a call that queues is never sent again; see acquire.lua.

-- include: beside

local id, me, mayQueue = ARGV[1], {ARGV[1]}, ARGV[5] == '1'
local mode = redis.pcall('hget', KEYS[1], 'mode')
if not mode and redis.pcall('exists', KEYS[1], KEYS[2], beside(KEYS[2], 'relock_yield')) == 0 then
  -- include: readers
  startReading(KEYS[1], ARGV[6], me, ARGV[2])
  return 1
end

-- include: phases

local q = {lock = KEYS[1], queue = KEYS[2], fence = KEYS[4], prefix = ARGV[6], channel = ARGV[7], claim = ARGV[8]}
if type(mode) == 'table' then
  -- include: wrongtype
  return wrongType(mode) and redis.error_reply('NOTLOCK type') or mode
end
local place = placeOf(id, q.claim)
local join = ARGV[4] ~= ''
if join and redis.call('hexists', KEYS[1], ARGV[4]) == 0 then return 4 end
local first = firstPlace(KEYS[2])
local free = not mode and redis.call('exists', KEYS[1]) == 0
if free then
  local wait = math.min(reserved(KEYS[2], mayQueue), 2)
  if mayQueue and (first or wait > 0) then queueUp(q, place) end
  if wait > 0 then return -1 - wait end -- as acquire.lua
  local given, bad = false, nil
  if first then given, bad = handOver(q, {}, false, {[place] = true}) end
  if not given and bad then return redis.error_reply(bad) end
  if given then
    free, mode = false, redis.call('hget', KEYS[1], 'mode')
    first = firstPlace(KEYS[2])
  end
end
local held = mode and (redis.call('hexists', KEYS[1], id) == 1
  or ARGV[3] ~= '' and redis.call('hexists', KEYS[1], ARGV[3]) == 1)
local open = mode == 'read' and (held or not keepsBack(KEYS[2], true))
if open and first and not isWriter(first) then -- others are coming in
  if mayQueue and not (join or held) then queueUp(q, place) end
  letReadersIn(q, mode, {[place] = true})
  first = firstPlace(KEYS[2])
  held = held or redis.call('hexists', KEYS[1], id) == 1
end
if held or free or open and (not first or isWriter(first) and not firstWriter(q, nil, true)) then
  if join then return 3 end
  first = firstPlace(KEYS[2])
  local no = enter(q, mode or nil, me, ARGV[2])
  if no then return no end
  if first and not held then
    letReadersIn(q, 'read')
  end
  return first and 2 or 1
end
do -- not at the top, where it would cost time that a free lock need not take
  -- include: foreign
  local no, holder = foreign(KEYS[1])
  if no then return no end
  if mayQueue then queueUp(q, place) end
  return -1 - (beyond(q, mode, holder) and 2 or redis.call('pttl', KEYS[1]))
end
