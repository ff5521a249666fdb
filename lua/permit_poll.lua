-- Polls for many waiters of semaphores, as mutex_poll.lua does for those of Mutexes.
--
--   KEYS   for each waiter: semaphore, fence, queue
--   ARGV   command that counts subscribers (queue.lua)
--          for each waiter: entry, beginning of the channels of grants
--   reply  for each waiter three numbers, as permit_acquire.lua and mutex_poll.lua
--
-- Sent twice: the second finds the same permits and entries; the tokens are greater.

-- needs: core, queue, permits

local gone, tokenless = -4503599627370496, -1125899906842624
local reply = {}
local done = {} -- what another waiter of the session was replied holds for all behind it
for i = 1, #KEYS / 3 do
  local lock, fence, queue = unpack(KEYS, 3 * i - 2, 3 * i)
  local entry, grants = unpack(ARGV, 2 * i, 2 * i + 1)
  local q = newSemaphore({lock, fence, queue}, grants, ARGV[1], entry)
  local id = idOf(entry)
  local score, n, x, y = redis.pcall('zscore', queue, entry), gone, 0, 0
  local slot = redis.pcall('zscore', lock, ':' .. id)
  if type(slot) == 'string' then
    local left = (redis.call('zscore', lock, id) or 0) - now
    if left > 0 then
      n, x, y = issue(fence, id, left) or tokenless, left, tonumber(slot)
    end
  elseif type(score) == 'string' then
    local ended, no
    if not done[lock] then ended, no = count(q) end
    if done[lock] then
      n, x = done[lock], tonumber(score)
    elseif not no then
      local term = grantOf(entry)
      local token, at, more = fill(q, ended, entry, term, id)
      if token then
        n, x, y = token, span(term, more), at
      elseif not at then
        n, x = -1 - waitFor(q), tonumber(score)
        keepAlive(q, entry)
        wantPermits(q)
        done[lock] = n
      end
    end
  end
  reply[3 * i - 2], reply[3 * i - 1], reply[3 * i] = n, x, y
end
return reply
