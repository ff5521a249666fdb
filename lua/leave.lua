--!df flags=allow-undeclared-keys
-- Ends a fair hold and grants the lock to the next waiter, the head of Redisson's queue
-- first. Without a hold, it ends the place in the queue. If nobody waits in a queue, it
-- wakes the waiters of other kinds of lock.
--
--   KEYS   lock, fence, queue
--   ARGV   hold id
--          channel of the lock
--          PUBLISH or SPUBLISH
--          claim (ms)
--          prefix of the grant channels
--          1 if the server knows all subscribers of such a channel, else 0
--   reply  number of subscribers woken (0 after a grant, and for a place in the queue), or
--          -1 if there was neither hold nor place
--
-- Sent twice: the second finds nothing.
--
-- The next waiter waits for this script, so it does as little as possible: the token is one
-- more than the last, unless the last may have started a block. Tokens then fall behind
-- the clock, but still grow.
--
-- The lock always has a holder: the next one is stored before the last one is removed. In
-- a slot that is being moved, a key that has become empty is a key that has moved. The
-- grant is published last.

-- include: next

local held = redis.pcall('hexists', KEYS[1], ARGV[1])
if held ~= 1 then
  -- include: wrongtype
  if held ~= 0 and not wrongType(held) then return held end
  return redis.call('zrem', KEYS[3], ARGV[1]) - 1
end
local function leave() redis.call('hdel', KEYS[1], ARGV[1]) end
if type(redis.pcall('lindex', 'redisson_lock_queue' .. string.sub(KEYS[3], 13), 0)) == 'string' then
  -- include: yield
  if yield(KEYS[3], ARGV[3], ARGV[6], ARGV[5]) then
    leave()
    return 0
  end
end
local id = nextThere(KEYS[3], ARGV[5], ARGV[3], ARGV[6])
if not id then
  leave()
  return redis.call(ARGV[3], ARGV[2], '0')
end
local token = redis.call('incr', KEYS[2])
if token % 16 == 1 then
  -- include: fence
  fence(KEYS[2], token > 1 and token - 1)
  token = redis.call('incr', KEYS[2])
else
  redis.call('pexpire', KEYS[2], '60000')
end
redis.call('hset', KEYS[1], id, 1)
leave()
redis.call('pexpire', KEYS[1], ARGV[4])
redis.call(ARGV[3], ARGV[5] .. sessionOf(id), id .. string.format(' %.0f ', token) .. ARGV[4])
return 0
