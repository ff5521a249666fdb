-- Polls for many waiters of Mutexes and FairMutexes of one session: see poll.lua.
--
--   KEYS   for each waiter: lock, fence, queue
--   ARGV, reply   as in poll.lua and mutex_acquire.lua
--
-- Sent twice: see poll.lua.

-- needs: token, core, queue, poll

local function open(keys, entry, channel, grants)
  return newQueue(keys[1], keys[2], keys[3], channel, grants, ARGV[1], entry)
end

local function look(q, entry, score, term)
  redis.call('pexpire', q.queue, 15000)
  local ttl = redis.call('pttl', q.lock)
  if ttl == -2 then
    lapsed(q)
    local some = redis.call('zrange', q.queue, 0, 1, 'withscores')
    local winner, n, more, again = pass(q, some, {}, entry, term, idOf(entry))
    if winner == entry then return n, span(term, more), again end
    if winner == 'redisson' then
      q.theirs = true
      if more then leave(q, '0') else dropPassed(q) end
      return -1 - n, score, some[3] == entry and 1 or 0
    end
    if winner then return taken(q.lock), score, 0 end
    dropPassed(q)
    return n and gone or -2, score, 0 -- more are to be passed
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

return pollAll(3, 3, open, look, foundHold)
