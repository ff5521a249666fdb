--!df flags=allow-undeclared-keys
-- Polls for many waiters of write sides, as mutex_poll.lua does for those of Mutexes.
--
--   KEYS   for each waiter: lock, fence, queue of writers, queue of readers
--   ARGV   command that counts subscribers (queue.lua)
--          for each waiter: entry, channel of Redisson, beginning of the channels of grants,
--          beginning of the rwlock_timeout keys
--   reply  for each waiter three numbers, as mutex_poll.lua
--
-- Sent twice: as mutex_poll.lua.

-- needs: core, queue, phase, readers

local gone, tokenless = -4503599627370496, -1125899906842624
local reply = {}

-- look returns the reply to a waiter that is queued with a score.
local function look(q, entry, score, term)
  redis.call('pexpire', q.queue, q.lives)
  local mode, free, no = modeOf(q.lock)
  if no then return gone, 0, 0 end
  if free then
    local winner, n, more, again = passFree(q, entry, term, idOf(entry))
    if winner == entry then return n, span(term, more), again end
    if not winner then return gone, 0, 0 end
    if winner == 'redisson' then
      if more then leave(q, '1') end
      return -1 - n, score, redis.call('zrange', q.queue, 1, 1)[1] == entry and 1 or 0
    end
    return taken(q.lock), score, 0
  end
  local has, bad = holderOf(q.lock)
  if bad then return gone, 0, 0 end
  if isRedissons(has) then
    used(q)
    local first = redis.call('zrange', q.queue, 0, 1)
    local theirs = first[1] == entry or first[1] == 'redisson' and first[2] == entry
    return taken(q.lock), score, theirs and 1 or 0
  elseif has and mode ~= 'read' then
    want(q, has)
  end
  return taken(q.lock), score, 0
end

-- found returns the reply to a waiter that is not queued: it has been granted the lock, or lost its
-- entry.
local function found(lock, fence, id)
  local left = redis.call('pttl', lock)
  if left == -1 then left = 5000 end -- somebody has taken its end away
  if left <= 0 or redis.pcall('hget', lock, id) ~= '1' then return gone, 0, 0 end
  return fenceOf(fence) or issue(fence, id, left) or tokenless, left, 1
end

for i = 1, #KEYS / 4 do
  local keys = {unpack(KEYS, 4 * i - 3, 4 * i)}
  local entry, channel, grants, prefix = unpack(ARGV, 4 * i - 2, 4 * i + 1)
  local score = redis.pcall('zscore', keys[3], entry)
  local n, x, y
  if type(score) == 'string' then
    local q = newLock(keys, prefix, channel, grants, ARGV[1], entry)
    n, x, y = look(q, entry, tonumber(score), grantOf(entry))
  else
    n, x, y = found(keys[1], keys[2], idOf(entry))
  end
  reply[3 * i - 2], reply[3 * i - 1], reply[3 * i] = n, x, y
end
return reply
