-- Reads the state of a lock or semaphore. It writes nothing.
--
--   KEYS   lock, fence, queue, queues of writers and readers
--   ARGV   none
--   reply  time to live (ms; -1 no expiry, -2 not locked), number of waiters in the queues, last
--          fencing token (0 if there is none), time of the server (ms), limit of a semaphore (0 for
--          a lock), note of the hold that has the token, then the fields and values of the lock, or
--          the hold ids and slots of the semaphore
--          NOTLOCK, an error: the key is not a lock
--
-- Sent twice: it only reads.

-- needs: token, core

local lock, limit = KEYS[1], redis.pcall('zscore', KEYS[1], 'permits')
local permits = type(limit) == 'string' and math.min(-tonumber(limit), 9007199254740991) or 0
local _, no = nil, nil
if permits < 1 then _, no = holderOf(lock) end
if no then return no end
local waiters = 0
for i = 3, 5 do
  waiters = waiters + redis.call('zcard', KEYS[i])
  if redis.call('zscore', KEYS[i], 'redisson') then waiters = waiters - 1 end
end
local fence = redis.pcall('get', KEYS[2])
local note = type(fence) == 'string' and string.match(fence, '^%d+ %S+ (.*)$') or ''
local r = {redis.call('pttl', lock), waiters, fenceOf(KEYS[2]) or 0, now, permits, note}
if permits >= 1 then
  local all, slots = redis.call('zrange', lock, 1, -1, 'withscores'), {}
  for i = 1, #all, 2 do
    local id = string.match(all[i], '^:(.*)')
    if id then
      slots[id] = all[i + 1]
    elseif slots[all[i]] and tonumber(all[i + 1]) >= now then
      r[#r + 1], r[#r + 2] = string.match(all[i], '^%-?(.*)'), slots[all[i]]
    end
  end
  return r
end
for _, text in ipairs(redis.call('hgetall', lock)) do r[#r + 1] = text end
return r
