-- Polls for many waiters of semaphores: see poll.lua.
--
--   KEYS   for each waiter: semaphore, fence, queue
--   ARGV, reply   as in poll.lua and permit_acquire.lua; the channel of Redisson is empty
--
-- Sent twice: the second finds the same permits and entries; the tokens are greater.

-- needs: token, core, queue, permits, poll

local function open(keys, entry, _, grants) return newSemaphore(keys, grants, ARGV[1], entry) end

local function look(q, entry, score, term)
  local ended, no = count(q)
  if no then return gone, 0, 0 end
  local token, at, more = fill(q, ended, entry, term, idOf(entry))
  if token then return token, span(term, more), at end
  if at then return gone, 0, 0 end
  keepAlive(q, entry)
  wantPermits(q)
  return -1 - waitFor(q), score, 0
end

-- found returns the reply to a waiter that is not queued: it has a permit, or lost its entry.
local function found(q, id)
  local slot = redis.pcall('zscore', q.lock, ':' .. id)
  local left = type(slot) == 'string' and (redis.call('zscore', q.lock, id) or 0) - now or 0
  if left <= 0 then return gone, 0, 0 end
  return issue(q.fence, id, left) or tokenless, left, tonumber(slot)
end

return pollAll(3, 3, open, look, found)
