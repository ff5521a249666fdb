--!df flags=allow-undeclared-keys
-- Looks after many waiters of read-write locks: as probe.lua does for other locks. It also
-- finds readers who are dead, and lets readers in who queue behind nobody.
--
--   KEYS   for each waiter: lock, fence, queue
--   ARGV   for each waiter: hold id, lease (ms), claim (ms), prefix of the rwlock_timeout keys,
--          channel of the lock
--   reply  for each waiter: as read.lua or write.lua, and as probe.lua where that differs
--
-- Sent twice: the second finds the holds and places of these ids. It queues nobody.

-- include: phases
-- include: foreign

local lost, theirTurn, tokenless = -4503599627370496, -2251799813685248, -1125899906842624
local replies, asks, done, theirs = {}, {}, {}, {}
local n = #KEYS / 3
local function advance(q)
  local mode = redis.pcall('hget', q.lock, 'mode')
  local free = not mode and redis.call('exists', q.lock) == 0
  redis.call('pexpire', q.queue, '15000')
  saw(q.queue, ARGV[1])
  if mode == 'read' and not firstWriter(q, asks, true) and not keepsBack(q.queue) then
    letReadersIn(q, mode, asks)
  elseif free or mode == 'read' and bury(q) then
    local wait = reserved(q.queue, true)
    if wait > 0 then return -1 - wait, firstPlace(q.queue) end
    local given, bad = handOver(q, {}, false, asks)
    return not given and bad and lost or -1 - math.max(redis.call('pttl', q.lock), -1)
  end
  local no, holder = foreign(q.lock)
  if no then return lost end
  return -1 - redis.call('pttl', q.lock), beyond(q, mode, holder) and firstPlace(q.queue)
end
for i = 1, n do
  local queue, place = KEYS[3 * i], placeOf(ARGV[5 * i - 4], ARGV[5 * i - 2])
  local score = redis.pcall('zscore', queue, place)
  asks[place] = type(score) == 'string'
  if asks[place] then comeBack(queue, place, score) end
end
for i = 1, n do
  local q = {lock = KEYS[3 * i - 2], fence = KEYS[3 * i - 1], queue = KEYS[3 * i]}
  local id, lease
  id, lease, q.claim, q.prefix, q.channel = unpack(ARGV, 5 * i - 4, 5 * i)
  local place = placeOf(id, q.claim)
  if asks[place] then
    if not done[q.lock] then done[q.lock], theirs[q.lock] = advance(q) end
    replies[i] = theirs[q.lock] == place and theirTurn or done[q.lock]
  end
  local held = redis.pcall('hexists', q.lock, id) == 1
  if not held then
    replies[i] = replies[i] and redis.call('zscore', q.queue, place) and replies[i] or lost
  elseif isWriter(id) then
    if redis.call('pttl', q.lock) < tonumber(lease) then redis.call('pexpire', q.lock, lease) end
    replies[i] = lastToken(q.fence) or fence(q.fence) or tokenless
  else
    local ends = startLease(q.lock, q.prefix .. id .. ':rwlock_timeout:1', lease)
    if ends and listed(q.lock, listOf(q.prefix)) then enlist(listOf(q.prefix), {id}, ends, lease) end
    local wanted = redis.pcall('zcount', q.queue, '(0', '+inf') ~= 0
    replies[i] = ends and (wanted and 2 or 1) or lost -- its own lease has ended
  end
end
return replies
