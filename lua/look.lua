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

local lost, theirTurn = -4503599627370496, -2251799813685248
local replies, asks, done = {}, {}, {}
local n = #KEYS / 3
for i = 1, n do asks[ARGV[5 * i - 4]] = true end
local function advance(q)
  local mode = redis.pcall('hget', q.lock, 'mode')
  local free = not mode and redis.call('exists', q.lock) == 0
  redis.call('pexpire', q.queue, '15000')
  if mode == 'read' and not firstWriter(q, asks, true) then
    letReadersIn(q, mode, asks)
  elseif free or mode == 'read' and bury(q) then
    local wait = reserved(q)
    if wait > 0 then return -1 - wait end
    handOver(q, {}, false, asks)
    return -1 - math.max(redis.call('pttl', q.lock), -1)
  end
  local no, holder = foreign(q.lock)
  if no then return lost end
  if beyond(q, mode, holder) and asks[redis.call('zrange', q.queue, 0, 0)[1]] then
    return theirTurn
  end
  return -1 - redis.call('pttl', q.lock)
end
for i = 1, n do
  local q = {lock = KEYS[3 * i - 2], fence = KEYS[3 * i - 1], queue = KEYS[3 * i]}
  local id, lease
  id, lease, q.claim, q.prefix, q.channel = unpack(ARGV, 5 * i - 4, 5 * i)
  if type(redis.pcall('zscore', q.queue, id)) == 'string' then
    saw(q, id)
    done[q.lock] = done[q.lock] or advance(q)
    replies[i] = done[q.lock]
  end
  if redis.pcall('hexists', q.lock, id) ~= 1 then
    replies[i] = replies[i] and redis.call('zscore', q.queue, id) and replies[i] or lost
  elseif isWriter(id) then
    if redis.call('pttl', q.lock) < tonumber(lease) then redis.call('pexpire', q.lock, lease) end
    replies[i] = tonumber(redis.call('get', q.fence)) or fence(q.fence)
  else
    local ends = startLease(q.lock, q.prefix .. id .. ':rwlock_timeout:1', lease)
    if ends and listed(q.lock, listOf(q.prefix)) then enlist(listOf(q.prefix), {id}, ends, lease) end
    replies[i] = ends and (redis.call('zrange', q.queue, 0, 0)[1] and 2 or 1) or lost -- its own lease has ended
  end
end
return replies
