--!df flags=allow-undeclared-keys
-- Looks after many contenders. It keeps their queues alive, gives those their places back that
-- stood back, grants free locks to the heads of the queues, and finds grants, whose lease starts
-- with that. A contender that has lost its place is not queued again: an old grant of its id may
-- still be on its way, and could be mistaken for a new one. Each lock is examined once, for all
-- its contenders.
--
--   KEYS   for each contender: lock, fence, queue
--   ARGV   for each contender: hold id, lease (ms), claim (ms)
--   reply  for each contender: as acquire.lua; -2^51 if it is the first of the queue, and Redisson
--          has the lock, or its turn; -2^52 if it neither holds the lock nor is in the queue, or if the
--          lock's key is no lock; -2^50 if it holds the lock, but no token can be issued
--
-- Sent twice: the second finds the holds and places of these ids. It queues nobody.

-- include: queue
-- include: yield
-- include: foreign

local lost, theirTurn, tokenless = -4503599627370496, -2251799813685248, -1125899906842624
local replies, asks, done, theirs = {}, {}, {}, {}

-- examine does what is to be done once for a lock. It returns what its contenders are replied, and
-- whose turn it is when Redisson has released it.
local function examine(lock, fencekey, queue)
  local fields = redis.pcall('hlen', lock)
  saw(queue, ARGV[1])
  redis.call('pexpire', queue, '15000')
  if fields == 0 then
    local wait = reserved(queue, true)
    if wait > 0 then return -1 - wait, firstPlace(queue) end
    local winner, bad = grant(lock, fencekey, queue, asks)
    if not winner and bad then return lost end
  end
  local no, holder = foreign(lock, fields)
  if no then return lost end
  local wait = -1 - math.max(redis.call('pttl', lock), -1)
  if not redissons(holder) then return wait end
  came(queue)
  return wait, firstPlace(queue)
end

local n = #KEYS / 3
for i = 1, n do
  local queue, place = KEYS[3 * i], placeOf(ARGV[3 * i - 2], ARGV[3 * i])
  local score = redis.pcall('zscore', queue, place)
  asks[place] = type(score) == 'string'
  if asks[place] then comeBack(queue, place, score) end
end
for i = 1, n do
  local lock, fencekey, queue = KEYS[3 * i - 2], KEYS[3 * i - 1], KEYS[3 * i]
  local id, lease, claim = unpack(ARGV, 3 * i - 2, 3 * i)
  local place = placeOf(id, claim)
  if asks[place] then
    if not done[lock] then done[lock], theirs[lock] = examine(lock, fencekey, queue) end
    replies[i] = theirs[lock] == place and theirTurn or done[lock]
  end
  if redis.pcall('hexists', lock, id) == 1 then
    redis.call('pexpire', lock, lease)
    replies[i] = lastToken(fencekey) or fence(fencekey) or tokenless
  end
  replies[i] = replies[i] or lost
end
return replies
