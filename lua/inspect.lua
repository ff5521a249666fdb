-- Reads the state of a lock. It writes nothing.
--
--   KEYS   lock, queue, queue of a read-write lock, fence
--   ARGV   none
--   reply  time to live (ms; -1 no expiry, -2 not locked), number of waiters in the queues, last fencing token (0 if
--          there is none), time of the server (ms), then the fields and values of the lock; NOTLOCK, an error, if
--          the key is no lock
--
-- Sent twice: it only reads.

-- needs: fence, lock

local no = foreign(KEYS[1])
if no then return no end
local waiters = redis.call('zcount', KEYS[2], '(0', '+inf') + redis.call('zcount', KEYS[3], '(0', '+inf')
local r = {redis.call('pttl', KEYS[1]), waiters, lastToken(KEYS[4]) or 0, clock()}
for _, text in ipairs(redis.call('hgetall', KEYS[1])) do r[#r + 1] = text end
return r
