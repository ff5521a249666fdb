--!df flags=allow-undeclared-keys
-- Acquires an exclusive lock if it is free and nobody queues for it, or queues. Whoever finds the
-- lock free grants it to the first of the queue.
--
--   KEYS   lock, fence, queue
--   ARGV   hold id, lease (ms)
--          1 to queue if the lock is not granted, 0 not to
--          claim (ms)
--   reply  > 0  the fencing token; this hold id holds the lock
--            0  another holds the lock, without expiry
--          < 0  another holds the lock; -1 minus the time (ms) after which to look again
--          NOTLOCK, an error: the key is no lock (lib/foreign.lua)
--
-- Sent twice: the second finds the hold of this id, renews its lease and returns the same token,
-- which nobody else can have changed meanwhile; or it finds its place in the queue. But if it
-- came after the first hold or place had ended, it would queue again, and an old grant could be
-- mistaken for a new one. So a call that queues is never sent again.
--
-- The token is issued first, so that nothing is acquired if that fails.

local call, lock, fencekey, queue, id = redis.call, KEYS[1], KEYS[2], KEYS[3], ARGV[1]
local yielding = 'relock_yield' .. string.sub(fencekey, 13)
if redis.pcall('exists', lock, queue, yielding) == 0 then
  -- Most often the lock is free, nobody wants it, and the clock has passed the last token.
  local t = call('time')
  local token = (t[1] * 1000 + math.floor(t[2] / 1000)) * 1024
  local last = tonumber(call('set', fencekey, token, 'px', '60000', 'get'))
  if not last or last + 1024 > token then
    -- include: fence
    token = fence(fencekey, last or false, t)
  end
  call('hset', lock, id, '1')
  call('pexpire', lock, ARGV[2])
  return token
end
-- include: queue
local asks, place = ARGV[3], placeOf(id, ARGV[4])
local ttl = call('pttl', lock)
if ttl ~= -2 then
  local fields = redis.pcall('hrandfield', lock, '16')
  local held = fields[1] == id and 1
  if not held and #fields ~= 1 then held = redis.pcall('hexists', lock, id) end
  if held == 1 then
    call('pexpire', lock, ARGV[2])
    return lastToken(fencekey) or (fence(fencekey))
  end
  -- include: foreign
  local no, holder = foreign(lock, #fields > 0 and fields or held)
  if no then return no end
  if asks == '1' then arrive(queue, place) end
  -- include: yield
  if redissons(holder) then
    came(queue)
    if ttl < 0 or ttl > 2 then ttl = 2 end -- the first of the queue learns at its look that it must listen
  end
  return -1 - ttl
end
-- include: yield
local wait = math.min(reserved(queue, asks == '1'), 2)
if asks == '1' then arrive(queue, place) end
if wait > 0 then return -1 - wait end -- as above
local winner, token, won = grant(lock, fencekey, queue, {[place] = true})
if winner and won ~= place then return -1 - claimOf(won) end
if not winner then
  if token then return redis.error_reply(token) end
  token = fence(fencekey)
  call('hset', lock, id, '1')
end
call('pexpire', lock, ARGV[2])
return token
