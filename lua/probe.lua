--!df flags=allow-undeclared-keys
-- Looks after many waiters of fair locks. It keeps their queues alive, grants free locks to
-- the heads of the queues, and finds grants whose message was lost. A waiter that has lost
-- its place is not queued again: an old grant of its id may still be on its way, and could
-- be mistaken for a new one. Each lock is examined once, for all its waiters.
--
--   KEYS   for each waiter: lock, fence, queue
--   ARGV   expiry of the queues (ms)
--          PUBLISH or SPUBLISH
--          1 if the server knows all subscribers of such a channel, else 0
--          then for each waiter: hold id, lease (ms), prefix of the grant channels, claim (ms)
--   reply  for each waiter: as acquire.lua, or -2^52 if it neither holds the lock nor is
--          in the queue, or if the lock's key is no lock
--
-- Sent twice: the second finds the holds and places of these ids. It queues nobody.

-- include: fair
-- include: foreign

local lost = -4503599627370496
local replies, done, asks = {}, {}, {}
for i = 1, #KEYS / 3 do asks[ARGV[4 * i]] = true end
for i = 1, #KEYS / 3 do
  local lock, fencekey, queue = KEYS[3 * i - 2], KEYS[3 * i - 1], KEYS[3 * i]
  local id, lease, grant, claim = unpack(ARGV, 4 * i, 4 * i + 3)
  local reply
  if type(redis.pcall('zscore', queue, id)) == 'string' then
    if not done[lock] then
      local absent = 'relock_absent' .. string.sub(queue, 13)
      if redis.pcall('exists', absent) == 1 then
        seen(queue, id)
        redis.pcall('pexpire', absent, ARGV[1])
      end
      local fields = redis.pcall('hlen', lock)
      local wait = fields == 0 and yielded(queue) or 0
      if fields == 0 and wait == 0 then
        local winner, token = dispatch(lock, fencekey, queue, claim, grant, ARGV[2], ARGV[3], asks)
        if winner == id then
          redis.call('pexpire', lock, lease)
          reply = token
        end
      end
      redis.call('pexpire', queue, ARGV[1])
      if wait > 0 then
        done[lock] = -1 - wait
      else
        local no, holder = foreign(lock, fields)
        done[lock] = no and lost or -1 - redis.call('pttl', lock)
        reply = reply or not no and -1 - left(lock, holder) -- one that looks soon is enough
      end
    end
    reply = reply or done[lock]
  elseif redis.pcall('hexists', lock, id) == 1 then
    redis.call('pexpire', lock, lease)
    reply = tonumber(redis.call('get', fencekey)) or one(fencekey)
  end
  replies[i] = reply or lost
end
return replies
