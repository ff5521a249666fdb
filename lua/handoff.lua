-- Gives a hold of a Mutex to another hold id: that of a holder to a ticket, or that of a ticket to
-- its adopter. The lock is held all the time, and waiters keep their places. The first of them
-- hears that the lease has changed.
--
--   KEYS   lock, fence, queue
--   ARGV   hold id that has the lock; hold id that gets it; lease of that (ms)
--          hold id for the fence key: - for a ticket, or if the lease ends by itself
--          note (token.lua)
--          1 if it is a ticket, else 0
--          channel of Redisson, beginning of the channels of grants, command that counts
--          subscribers (queue.lua)
--   reply  > 0  the fencing token of the second, larger than that of the first; if it is a ticket,
--          the time of the
--               server (ms)
--          < 0  neither has the lock; minus the time of the server (ms)
--          NOTLOCK, an error: the key is not a lock
--
-- Sent twice: the second finds the hold of the second id, renews its lease and returns the same
-- token, or the time. If that has ended meanwhile it finds nothing, however late it comes: hold ids
-- are never used again.

-- needs: token, core, queue

local lock, fence, queue = KEYS[1], KEYS[2], KEYS[3]
local from, to, lease, holder, note, ticket, channel, grants, numsub = unpack(ARGV)
if redis.pcall('hget', lock, to) == '1' then
  if redis.call('pttl', lock) < tonumber(lease) then redis.call('pexpire', lock, lease) end
  if ticket == '1' then return now end
  local token, err = tokenOf(fence, holder), nil
  if not token then token, err = issue(fence, holder, lease, note) end
  return token or redis.error_reply(err)
end
if redis.pcall('hget', lock, from) ~= '1' then
  local _, no = holderOf(lock)
  return no or -now
end
local token, err = issue(fence, holder, lease, note)
if not token then return redis.error_reply(err) end
redis.call('hset', lock, to, '1')
redis.call('hdel', lock, from)
redis.call('pexpire', lock, lease)
local q = newQueue(lock, fence, queue, channel, grants, numsub, to)
wakeFirst(q, queue)
wakeRedisson(q, '0')
return ticket == '1' and now or token
