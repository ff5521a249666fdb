--!df flags=allow-undeclared-keys
-- Polls for many waiters of read sides, as mutex_poll.lua does for those of Mutexes. It also lets
-- readers in that queue behind no writer that is there.
--
--   KEYS   for each waiter: lock, fence, queue of writers, queue of readers, rwlock_timeout key of
--          the hold
--   ARGV   command that counts subscribers (queue.lua)
--          for each waiter: entry, channel of Redisson, beginning of the channels of grants,
--          beginning of the rwlock_timeout keys
--   reply  for each waiter three numbers, as read_acquire.lua and mutex_poll.lua
--
-- Sent twice: as mutex_poll.lua.

-- needs: core, queue, phase, readers

local gone = -4503599627370496
local reply = {}

-- look returns the reply to a waiter that is queued with a score.
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
  if winner == 'redisson' then
    if more then leave(q, '1') end
    return -1 - n, score, redis.call('zrange', q.readers, 0, 0)[1] == entry and 1 or 0
  end
  if not winner and n then return gone, 0, 0 end
  if isRedissons(has) then
    used(q)
    local first = redis.call('zrange', q.readers, 0, 0)[1] == entry
    return taken(q.lock), score, first and 1 or 0
  elseif has and mode ~= 'read' then
    want(q, has)
  end
  return taken(q.lock), score, 0
end

-- found returns the reply to a waiter that is not queued: it has been let in, or lost its entry.
local function found(lock, queue, timeout, id)
  local left = redis.pcall('hget', lock, id) == '1' and redis.call('pttl', timeout) or 0
  if left <= 0 then return gone, 0, 0 end
  return 1, span(left, redis.call('exists', queue) == 1), 0
end

for i = 1, #KEYS / 5 do
  local keys = {unpack(KEYS, 5 * i - 4, 5 * i - 1)}
  local entry, channel, grants, prefix = unpack(ARGV, 4 * i - 2, 4 * i + 1)
  local score = redis.pcall('zscore', keys[4], entry)
  local n, x, y
  if type(score) == 'string' then
    local q = newLock(keys, prefix, channel, grants, ARGV[1], entry)
    n, x, y = look(q, entry, tonumber(score), grantOf(entry))
  else
    n, x, y = found(keys[1], keys[3], KEYS[5 * i], idOf(entry))
  end
  reply[3 * i - 2], reply[3 * i - 1], reply[3 * i] = n, x, y
end
return reply
