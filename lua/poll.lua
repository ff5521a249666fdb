-- What the scripts share that poll for many waiters of one session. They keep the queues alive,
-- give locks that are free to the next, find grants, and tell holders that others wait: a message
-- may be lost, and the first waiter may be dead. They queue nobody. A waiter that is granted a lock
-- has it for its grant timeout, as by a message: the reply may come to nobody.
--
--   KEYS   for each waiter those of the lock; the third or fourth is its queue
--   ARGV   command that counts subscribers (queue.lua)
--          for each waiter: entry, channel of Redisson, beginning of the channels of grants, and of
--          a read-write lock that of the rwlock_timeout keys
--   reply  for each waiter three numbers, as of the script that acquires, with what is left of the
--          grant timeout for the lease; the first is -2^52 if it has neither the lock nor an entry,
--          or if the key is not a lock, and -2^50 if it has the lock but no token can be issued
--
-- Sent twice: the second finds the same holds and entries.

local gone, tokenless = -4503599627370496, -1125899906842624

-- foundHold returns the reply to a waiter that is not queued: it has been granted the lock, or lost
-- its entry.
local function foundHold(q, id)
  local left = redis.call('pttl', q.lock)
  if left == -1 then left = 5000 end -- somebody has taken its end away
  if left <= 0 or redis.pcall('hget', q.lock, id) ~= '1' then return gone, 0, 0 end
  return tokenOf(q.fence, id) or issue(q.fence, id, left) or tokenless, left, 1
end

-- pollAll returns the reply. Each waiter has so many keys; queue says which is its queue. open
-- returns q for a waiter; look the reply to one that is queued with a score, and found to one that
-- is not. Unless q.theirs, the reply to a waiter that waits on holds for all behind it.
local function pollAll(width, queue, open, look, found)
  local n, done, reply = #KEYS / width, {}, {}
  local args = (#ARGV - 1) / n
  for i = 0, n - 1 do
    local keys = {unpack(KEYS, width * i + 1, width * (i + 1))}
    local entry, channel, grants, prefix = unpack(ARGV, args * i + 2, args * (i + 1) + 1)
    local lock, score = keys[1], redis.pcall('zscore', keys[queue], entry)
    local a, b, c
    if type(score) == 'string' and done[lock] then
      a, b, c = done[lock], tonumber(score), 0
    else
      local q = open(keys, entry, channel, grants, prefix)
      if type(score) == 'string' then
        a, b, c = look(q, entry, tonumber(score), grantOf(entry))
        if a <= 0 and a > tokenless and not q.theirs then done[lock] = a end
      else
        a, b, c = found(q, idOf(entry), keys)
      end
    end
    reply[3 * i + 1], reply[3 * i + 2], reply[3 * i + 3] = a, b, c
  end
  return reply
end
