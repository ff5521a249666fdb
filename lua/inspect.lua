-- Reads the state of a lock. It writes nothing.
--
--   KEYS   lock, queue, queue of a read-write lock
--   ARGV   none
--   reply  time to live (ms; -1 no expiry, -2 not locked), number of waiters in the queues, then the fields and
--          values of the lock; NOTLOCK, an error, if the key is no lock
--
-- Sent twice: it only reads.

-- needs: lock

local no = foreign(KEYS[1])
if no then return no end
local r = redis.call('hgetall', KEYS[1])
table.insert(r, 1, redis.call('zcount', KEYS[2], '(0', '+inf') + redis.call('zcount', KEYS[3], '(0', '+inf'))
table.insert(r, 1, redis.call('pttl', KEYS[1]))
return r
