-- Polls for many waiters of Mutexes and FairMutexes of one session: it keeps their queues alive,
-- gives locks that are free to the next, finds grants, and tells holders that others wait: the
-- message of the first waiter may be lost, and it may be dead. It queues nobody. Who is granted a
-- lock has it for its grant timeout, as by a message: the reply may come to nobody.
--
--   KEYS   for each waiter: lock, fence, queue
--   ARGV   command that counts subscribers (queue.lua)
--          for each waiter: entry, channel of Redisson, beginning of the channels of grants
--   reply  for each waiter three numbers, as mutex_acquire.lua, with what is left of the grant
--          timeout for the lease; the first is -2^52 if it has neither the lock nor an entry, or if
--          the key is not a lock, and -2^50 if it has the lock but no token can be issued
--
-- Sent twice: the second finds the same holds and entries.

-- needs: core, queue

local gone, tokenless = -4503599627370496, -1125899906842624
local done, reply = {}, {}

-- look returns the reply to a waiter that is queued with a score.
local function look(q, entry, score, term)
  redis.call('pexpire', q.queue, 15000)
  local ttl = redis.call('pttl', q.lock)
  if ttl == -2 then
    lapsed(q)
    local some = redis.call('zrange', q.queue, 0, 1, 'withscores')
    local winner, n, more, again = pass(q, some, {}, entry, term, idOf(entry))
    if winner == 'redisson' then
      q.theirs = true
      if more then leave(q, '0') end
      dropPassed(q)
      return -1 - n, score, some[3] == entry and 1 or 0
    end
    if not winner then return gone, 0, 0 end
    if winner == entry then return n, span(term, more), again end
    return taken(q.lock), score, 0
  end
  local has, no = holderOf(q.lock)
  if no then return gone, 0, 0 end
  if not isRedissons(has) then
    if has then want(q, has) end
    return -1 - ttl, score, 0
  end
  q.theirs = true
  used(q)
  local first = redis.call('zrange', q.queue, 0, 1)
  local isFirst = first[1] == entry or first[1] == 'redisson' and first[2] == entry
  return -1 - ttl, score, isFirst and 1 or 0
end

-- found returns the reply to a waiter that is not queued: it has been granted the lock, or lost its
-- entry.
local function found(lock, fence, id)
  local left = redis.call('pttl', lock)
  if left == -1 then left = 5000 end -- somebody has taken its end away
  if left <= 0 or redis.pcall('hget', lock, id) ~= '1' then return gone, 0, 0 end
  return fenceOf(fence) or issue(fence, id, left) or tokenless, left, 1
end

for i = 1, #KEYS / 3 do
  local lock, fence, queue = unpack(KEYS, 3 * i - 2, 3 * i)
  local entry, channel, grants = unpack(ARGV, 3 * i - 1, 3 * i + 1)
  local score = redis.pcall('zscore', queue, entry)
  local n, x, y
  if type(score) ~= 'string' then
    n, x, y = found(lock, fence, idOf(entry))
  else
    local q = newQueue(lock, fence, queue, channel, grants, ARGV[1], entry)
    local seen = done[lock] -- by another waiter of the session, whose reply holds for all behind it
    if seen then
      n, x, y = seen, tonumber(score), 0
    else
      n, x, y = look(q, entry, tonumber(score), grantOf(entry))
      if n <= 0 and n > tokenless and not q.theirs then done[lock] = n end
    end
  end
  reply[3 * i - 2], reply[3 * i - 1], reply[3 * i] = n, x, y
end
return reply
