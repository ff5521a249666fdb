--!df flags=allow-undeclared-keys
-- Looks after many contenders. It keeps their queues alive, grants free locks to the heads of the
-- queues, and finds grants whose message was lost. A contender that has lost its place is not
-- queued again: an old grant of its id may still be on its way, and could be mistaken for a new
-- one. Each lock is examined once, for all its contenders.
--
--   KEYS   for each contender: lock, fence, queue
--   ARGV   for each contender: hold id, lease (ms), claim (ms)
--   reply  for each contender: as acquire.lua; -2^51 if it is the first of the queue and Redisson
--          holds the lock; -2^52 if it neither holds the lock nor is in the queue, or if the
--          lock's key is no lock
--
-- Sent twice: the second finds the holds and places of these ids. It queues nobody.

-- include: queue
-- include: yield
-- include: foreign
-- include: redisson

local lost, theirTurn = -4503599627370496, -2251799813685248
local replies, done, asks = {}, {}, {}
for i = 1, #KEYS / 3 do asks[ARGV[3 * i - 2]] = true end
for i = 1, #KEYS / 3 do
  local lock, fencekey, queue = KEYS[3 * i - 2], KEYS[3 * i - 1], KEYS[3 * i]
  local id, lease, claim = unpack(ARGV, 3 * i - 2, 3 * i)
  local reply
  if type(redis.pcall('zscore', queue, id)) == 'string' then
    if not done[lock] then
      local absent = beside(queue, 'relock_absent')
      if redis.pcall('exists', absent) == 1 then
        redis.pcall('hdel', absent, sessionOf(id))
        redis.pcall('pexpire', absent, '15000')
      end
      local fields = redis.pcall('hlen', lock)
      local wait = fields == 0 and yielded(queue) or 0
      if fields == 0 and wait == 0 then
        local winner, token = grant(lock, fencekey, queue, claim, asks)
        if winner == id then
          redis.call('pexpire', lock, lease)
          reply = token
        end
      end
      redis.call('pexpire', queue, '15000')
      if wait > 0 then
        done[lock] = -1 - math.min(wait, 2) -- Redisson's turn may be over long before
      else
        local no, holder = foreign(lock, fields)
        done[lock] = no and lost or -1 - redis.call('pttl', lock)
        if redissons(holder) then
          came(queue)
          -- One that looks soon is enough.
          if asks[redis.call('zrange', queue, 0, 0)[1]] then reply = reply or theirTurn end
        end
      end
    end
    reply = reply or done[lock]
  elseif redis.pcall('hexists', lock, id) == 1 then
    redis.call('pexpire', lock, lease)
    reply = tonumber(redis.call('get', fencekey)) or fence(fencekey)
  end
  replies[i] = reply or lost
end
return replies
