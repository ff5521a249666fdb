--!df flags=allow-undeclared-keys
-- Polls for many waiters of write sides: see poll.lua.
--
--   KEYS   for each waiter: lock, fence, queue of writers, queue of readers
--   ARGV, reply   as in poll.lua and write_acquire.lua
--
-- Sent twice: see poll.lua.

-- needs: token, core, queue, phase, readers, poll

local function open(keys, entry, channel, grants, prefix)
  return newLock(keys, prefix, channel, grants, ARGV[1], entry)
end

local function look(q, entry, score, term)
  redis.call('pexpire', q.queue, q.lives)
  local mode, free, no = modeOf(q.lock)
  if no then return gone, 0, 0 end
  if free then
    local winner, n, more, again = passFree(q, entry, term, idOf(entry))
    if winner == entry then return n, span(term, more), again end
    if not winner then return n and gone or -2, score, 0 end
    if winner ~= 'redisson' then return taken(q.lock), score, 0 end
    q.theirs = true
    if more then leave(q, '1') end
    return -1 - n, score, redis.call('zrange', q.queue, 1, 1)[1] == entry and 1 or 0
  end
  local has, bad = holderOf(q.lock)
  if bad then return gone, 0, 0 end
  if not isRedissons(has) then
    if has and mode ~= 'read' then want(q, has) end
    return taken(q.lock), score, 0
  end
  q.theirs = true
  used(q)
  local first = redis.call('zrange', q.queue, 0, 1)
  local isFirst = first[1] == entry or first[1] == 'redisson' and first[2] == entry
  return taken(q.lock), score, isFirst and 1 or 0
end

return pollAll(4, 3, open, look, foundHold)
