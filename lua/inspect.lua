-- Reads the state of a lock or semaphore. It writes nothing.
--
--   KEYS   lock, queue, queue of a read-write lock, fence
--   ARGV   none
--   reply  time to live (ms; -1 no expiry, -2 not locked), number of waiters in the queues, last fencing token (0 if
--          there is none), time of the server (ms), limit of a semaphore (0 for a lock), then the fields and values of
--          the lock, or the hold ids and slots of the semaphore; NOTLOCK, an error, if the key is no lock
--
-- Sent twice: it only reads.

-- needs: fence, lock

local limit = redis.pcall('zscore', KEYS[1], 'permits')
local permits = type(limit) == 'string' and math.min(-tonumber(limit), 9007199254740992) or 0 -- a reply has an int64
local no = permits < 1 and foreign(KEYS[1])
if no then return no end
local waiters = redis.call('zcount', KEYS[2], '(0', '+inf') + redis.call('zcount', KEYS[3], '(0', '+inf')
local last, now = lastToken(KEYS[4]) or 0, clock()
local r = {redis.call('pttl', KEYS[1]), waiters, last, now, permits}
if permits >= 1 then
  local all, slots = redis.call('zrange', KEYS[1], 1, -1, 'withscores'), {}
  for i = 1, #all, 2 do
    local id = string.match(all[i], '^:(.*)')
    if id then
      slots[id] = all[i + 1]
    elseif slots[all[i]] and tonumber(all[i + 1]) >= now then
      r[#r + 1], r[#r + 2] = all[i], slots[all[i]]
    end
  end
  return r
end
for _, text in ipairs(redis.call('hgetall', KEYS[1])) do r[#r + 1] = text end
return r
