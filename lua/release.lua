-- Ends an exclusive hold.
--
--   KEYS   lock
--   ARGV   hold id
--          channel of the lock
--          PUBLISH or SPUBLISH
--   reply  number of subscribers woken, or -1 if there was no such hold
--
-- Sent twice: the second finds nothing. Hold ids are never used again, so it cannot end
-- another hold, however late it arrives.

if redis.call('hdel', KEYS[1], ARGV[1]) == 0 then return -1 end
return redis.call(ARGV[3], ARGV[2], '0')
