--!df flags=allow-undeclared-keys
-- Looks after many contenders of a session. It keeps their queues alive, gives those their places back that stood
-- back, hands over locks that are free, and finds grants, whose lease starts with that. At read-write locks it also
-- finds readers who are dead, and lets readers in who queue behind nobody. A contender that has lost its place is not
-- queued again: an old grant of its id may still be on its way, and could be mistaken for a new one. Each lock is
-- examined once, for all its contenders. If the first of the queue is one of them, or silent, the holder of the lock is
-- told that it is wanted, since the message of who queued first may be lost.
--
--   KEYS   for each contender: lock, fence, queue
--   ARGV   for each contender: hold id, lease (ms), claim (ms), of a semaphore behind the limit and a space, and for a
--          read-write lock the prefix of the rwlock_timeout keys, for others the empty string
--   reply  for each contender: as acquire.lua, read.lua or write.lua; -2^51 if it is the first of the queue, and
--          Redisson has the lock, or its turn; -2^52 if it neither holds the lock nor is in the queue, or if the
--          lock's key is no lock; -2^50 if it holds the lock, but no token can be issued; 1 if it holds a permit of a
--          semaphore, of which permit.lua tells token and slot
--
-- Sent twice: the second finds the holds and places of these ids. It queues nobody.

-- needs: fence, lock, readers, places, turns, grant, phases, permits, fill

local lost, theirTurn, tokenless = -4503599627370496, -2251799813685248, -1125899906842624
local replies, asks, done, theirs, most = {}, {}, {}, {}, {}

-- wants reports whether the first of the queue looks, or is silent: then the holder is told that somebody waits.
local function wants(q)
  local first = firstOf(q.queue)
  return first[1] and (asks[first[1]] or silent(q.queue)(first[1], first[2]))
end

-- examine does what is to be done once for a lock. It returns what its contenders are replied, and whose turn it is
-- when Redisson has released it.
local function examine(q)
  redis.call('pexpire', q.queue, '15000')
  looked(q.queue, ARGV[1])
  if q.permits then
    if count(q) or fill(q, asks) then return lost end
    if wants(q) then wantPermit(q) end
    return -1 - waitFor(q)
  end
  local mode = q.prefix and redis.pcall('hget', q.lock, 'mode')
  local free = not mode and redis.call('exists', q.lock) == 0
  if mode == 'read' and not stoppedBy(q) and not readersWait(q.queue) then
    letReadersIn(q, mode, asks)
  elseif free or mode == 'read' and removeDead(q) then
    local wait = leftFor(q.queue, true)
    if wait > 0 then return -1 - wait, firstPlace(q.queue) end
    local given, bad = handOver(q, {}, false, asks)
    if not given and bad then return lost end
    mode = q.prefix and redis.call('hget', q.lock, 'mode')
  end
  local no, holder = foreign(q.lock)
  if no then return lost end
  local redisson = redissonHolds(q, mode, holder)
  if holder and not redisson and mode ~= 'read' and wants(q) then want(q.lock, holder) end
  return -1 - math.max(redis.call('pttl', q.lock), -1), redisson and firstPlace(q.queue)
end

local n = #KEYS / 3
for i = 1, n do
  local lock, queue, place = KEYS[3 * i - 2], KEYS[3 * i], placeOf(ARGV[4 * i - 3], ARGV[4 * i - 1])
  local score = redis.pcall('zscore', queue, place)
  asks[place] = type(score) == 'string'
  most[lock] = math.max(most[lock] or 0, limitOf(place))
  if asks[place] then comeBack(queue, place, score) end
end
for i = 1, n do
  local lock, fencekey, queue = KEYS[3 * i - 2], KEYS[3 * i - 1], KEYS[3 * i]
  local id, lease, claim, prefix = unpack(ARGV, 4 * i - 3, 4 * i)
  local place = placeOf(id, claim)
  local permits = limitOf(place) > 0
  if asks[place] then
    if not done[lock] then
      local q = {lock = lock, fence = fencekey, queue = queue, prefix = prefix ~= '' and prefix or nil}
      q.permits, q.most = permits, most[lock]
      done[lock], theirs[lock] = examine(q)
    end
    replies[i] = theirs[lock] == place and theirTurn or done[lock]
  end
  local held = redis.pcall(permits and 'zscore' or 'hexists', lock, id)
  if type(held) == 'table' or not held or tonumber(held) < 1 then
    if not asks[place] or not redis.call('zscore', queue, place) then replies[i] = lost end
  elseif permits then
    prolong(lock, id, lease)
    replies[i] = 1
  elseif prefix == '' or isWriter(id) then
    if redis.call('pttl', lock) < tonumber(lease) then redis.call('pexpire', lock, lease) end
    replies[i] = lastToken(fencekey) or fence(fencekey) or tokenless
  else
    local ends = startLease(lock, prefix .. id .. ':rwlock_timeout:1', lease)
    if ends and listed(lock, listOf(prefix)) then enlist(listOf(prefix), {id}, ends, lease) end
    replies[i] = ends and (firstOf(queue, redis.pcall)[1] and 2 or 1) or lost -- its own lease has ended
  end
end
return replies
