-- What the scripts of fair locks share. The lock is a hash like that of any exclusive lock;
-- the queue is a sorted set of hold ids in order of arrival.
--
-- dispatch grants a free lock to the first waiter whose session is subscribed, and returns
-- its hold id and token, or nothing if there is none. The winner first gets the lock for a
-- claim, a short lease, which it renews at once. The name of the session's channel is
-- derived here, because only the queue knows who is next.
--
-- one issues a block of a single token: a fair hold is not passed on within a process.
-- leave.lua does both in a way of its own.
--
-- yielded returns for how long (ms) the lock is reserved for the head of Redisson's queue,
-- and left when to look at a held lock again (ms): its time to live, but soon if Redisson
-- holds it, because the end of an RFairLock hold is published to no other waiter.

-- include: fence
-- include: yield
-- include: next

local function one(fencekey)
  fence(fencekey)
  return redis.call('incr', fencekey)
end

local function enqueue(queue, id, valid)
  if not redis.call('zscore', queue, id) then
    local t = redis.call('time')
    local score = t[1] * 1000000 + t[2]
    local last = redis.call('zrange', queue, -1, -1, 'withscores')
    if last[2] then score = math.max(score, tonumber(last[2]) + 1) end
    redis.call('zadd', queue, string.format('%.0f', score), id)
    seen(queue, id)
  end
  redis.call('pexpire', queue, valid)
end

local function yielded(queue)
  local key = 'relock_yield' .. string.sub(queue, 13)
  local head = redis.pcall('get', key)
  if type(head) ~= 'string' or head ~= theirs(queue) then return 0 end
  return redis.call('pttl', key)
end

local function left(lock, holder)
  local ttl = redis.call('pttl', lock)
  if holder and string.sub(holder, 15, 15) == '4' and (ttl < 0 or ttl > 20) then return 20 end
  return ttl
end

local function dispatch(lock, fencekey, queue, claim, grant, publish, counted, asks)
  local id = nextThere(queue, grant, publish, counted, asks)
  if not id then return nil end
  local token = one(fencekey)
  redis.call(publish, grant .. sessionOf(id), id .. string.format(' %.0f ', token) .. claim)
  redis.call('hset', lock, id, 1)
  redis.call('pexpire', lock, claim)
  return id, token
end
