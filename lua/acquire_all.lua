--!df flags=allow-undeclared-keys
-- Acquires several exclusive locks, all or none. It queues nowhere; a lock that others queue for
-- is granted to the first of them.
--
--   KEYS   the locks, then their fences and then their queues in the same order
--   ARGV   for each lock: hold id, lease (ms)
--   reply  0, then the fencing token of each lock; or the position (from 1) of a lock
--          that another holds, then what acquire.lua replies for it. The position of one
--          that is no lock follows the error NOTLOCK
--
-- Locks that were last acquired together have equal tokens. Their next token is computed
-- once.
--
-- Sent twice: as acquire.lua, for each lock.

-- include: fence

local call = redis.call
local n = #KEYS / 3
local reply, ours = {0}, nil
if call('exists', unpack(KEYS, 1, n)) > 0 then
  ours = {}
  for i = 1, n do
    local ttl = call('pttl', KEYS[i])
    if ttl ~= -2 then
      local held = redis.pcall('hexists', KEYS[i], ARGV[2 * i - 1])
      if held ~= 1 then
        -- include: foreign
        local no = foreign(KEYS[i], held)
        return no and redis.error_reply(no.err .. ' ' .. i) or {i, -1 - ttl}
      end
      ours[i] = true
    end
  end
end
local besides = {}
for i = 1, n do
  besides[2 * i - 1], besides[2 * i] = KEYS[2 * n + i], 'relock_yield' .. string.sub(KEYS[n + i], 13)
end
if redis.pcall('exists', unpack(besides)) ~= 0 then
  -- include: queue
  -- include: yield
  for i = 1, n do
    local queue = KEYS[2 * n + i]
    if not (ours and ours[i]) then
      local wait = reserved(queue, true)
      if wait > 0 then return {i, -1 - wait} end
      local winner, bad, place = grant(KEYS[i], KEYS[n + i], queue)
      if winner then return {i, -1 - claimOf(place)} end
      if bad then return redis.error_reply(bad) end
    end
  end
end
local t = call('time')
local last = call('mget', unpack(KEYS, n + 1, 2 * n))
local like, f, text, px
for i = 1, n do -- first: it may fail, and a failed script is not undone
  local was = last[i]
  if ours and ours[i] and tokenIn(was) then
    reply[i + 1] = tokenIn(was)
  elseif was == like and f then
    call('set', KEYS[n + i], text, 'px', px)
    reply[i + 1] = f
  else
    f, text, px = fence(KEYS[n + i], was, t)
    like, reply[i + 1] = was, f
  end
end
for i = 1, n do
  local key = KEYS[i]
  if not (ours and ours[i]) then call('hset', key, ARGV[2 * i - 1], '1') end
  call('pexpire', key, ARGV[2 * i])
end
return reply
