--!df flags=allow-undeclared-keys
-- Polls for many waiters of read sides: see poll.lua. It also lets readers in that queue behind no
-- writer that is there.
--
--   KEYS   for each waiter: lock, fence, queue of writers, queue of readers, rwlock_timeout key of
--          the hold
--   ARGV, reply   as in poll.lua and read_acquire.lua
--
-- Sent twice: see poll.lua.

-- needs: token, core, queue, phase, readers, poll

local function open(keys, entry, channel, grants, prefix)
  return newLock(keys, prefix, channel, grants, ARGV[1], entry)
end

local function look(q, entry, score, term)
  redis.call('pexpire', q.readers, 15000)
  local mode, free, no = modeOf(q.lock)
  if no then return gone, 0, 0 end
  local has = nil
  if not free then has, no = holderOf(q.lock) end
  if no then return gone, 0, 0 end
  local winner, n, more
  if free then
    winner, n, more = passFree(q, entry, term)
  elseif mode == 'read' and not blocked(q) then
    dropPassed(q)
    admit(q, 'read', {}, entry, term)
  end
  if redis.call('hexists', q.lock, idOf(entry)) == 1 then
    return 1, span(term, redis.call('exists', q.queue) == 1), 0
  end
  if not winner and n then return gone, 0, 0 end
  q.theirs = winner == 'redisson' or isRedissons(has)
  local isFirst = q.theirs and redis.call('zrange', q.readers, 0, 0)[1] == entry and 1 or 0
  if winner == 'redisson' then
    if more then leave(q, '1') end
    return -1 - n, score, isFirst
  elseif q.theirs then
    used(q)
  elseif has and mode ~= 'read' then
    want(q, has)
  end
  return taken(q.lock), score, isFirst
end

-- found returns the reply to a waiter that is not queued: it has been let in, or lost its entry.
local function found(q, id, keys)
  local left = redis.pcall('hget', q.lock, id) == '1' and redis.call('pttl', keys[5]) or 0
  if left <= 0 then return gone, 0, 0 end
  return 1, span(left, redis.call('exists', q.queue) == 1), 0
end

return pollAll(5, 4, open, look, found)
