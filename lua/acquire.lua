--!df flags=allow-undeclared-keys
-- Acquires an exclusive lock if it is free and nobody queues for it, or queues. Whoever finds the
-- lock free grants it to the first of the queue.
--
--   KEYS   lock, fence, and in a cluster the queue; see below
--   ARGV   hold id, lease (ms)
--          1, or missing, to queue if the lock is not granted, 0 not to; 2 not to, by one that
--          listens to the lock's channel, for whom a free lock is reserved
--          claim (ms); 5000 if it is missing
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
--
-- A name that the script derives is cheaper than a key that it is given. But in a cluster a slot may
-- be half moved: the server then refuses a script if it misses one of its keys, and fails one in the
-- middle that comes upon such a key. So there all keys are given that it cannot do without.

local call, lock = redis.call, KEYS[1]
local named = string.sub(KEYS[2], 13)
local queue, yielding = KEYS[3] or 'relock_queue' .. named, 'relock_yield' .. named
if redis.pcall('exists', lock, queue, yielding) == 0 then
  -- Most often the lock is free, nobody wants it, and the clock has passed the last token.
  local t = call('time')
  local token = (t[1] * 1000 + math.floor(t[2] / 1000)) * 1024
  local last = tonumber(call('set', KEYS[2], token, 'px', '60000', 'get'))
  if not last or last + 1024 > token then
    -- include: fence
    token = fence(KEYS[2], last or false, t)
  end
  call('hset', lock, ARGV[1], '1')
  call('pexpire', lock, ARGV[2])
  return token
end
local asks = ARGV[3] or '1'
local ttl = call('pttl', lock)
if ttl ~= -2 then
  local fields = redis.pcall('hrandfield', lock, '16')
  local held = fields[1] == ARGV[1] and 1
  if not held and #fields ~= 1 then held = redis.pcall('hexists', lock, ARGV[1]) end
  if held == 1 then
    call('pexpire', lock, ARGV[2])
    local token = tonumber(call('get', KEYS[2]))
    if token then return token end
    -- include: fence
    return (fence(KEYS[2]))
  end
  -- include: foreign
  local no, holder = foreign(lock, #fields > 0 and fields or held)
  if no then return no end
  if asks == '1' then
    -- include: queue
    enqueue(queue, ARGV[1])
  end
  -- include: redisson
  if redissons(holder) then
    came(queue)
    if ttl < 0 or ttl > 2 then ttl = 2 end -- the first of the queue learns at its look that it must listen
  end
  return -1 - ttl
end
-- include: queue
-- include: yield
local wait, to = yielded(queue)
if asks == '1' then
  enqueue(queue, ARGV[1])
elseif asks == '2' and to == '*' and call('exists', queue) == 0 then
  wait = 0
  redis.pcall('del', yielding) -- it is used
end
if wait > 0 then return -1 - wait end
local claim = ARGV[4] or '5000'
local winner, token = grant(lock, KEYS[2], queue, claim, {[ARGV[1]] = true})
if winner == ARGV[1] then
  call('pexpire', lock, ARGV[2])
  return token
end
if winner then return -1 - claim end
token = fence(KEYS[2])
call('hset', lock, ARGV[1], '1')
call('pexpire', lock, ARGV[2])
return token
