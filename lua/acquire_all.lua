--!df flags=allow-undeclared-keys
-- Acquires several exclusive locks, all or none. It queues nowhere; a lock that others queue for is granted to the
-- first of them.
--
--   KEYS   the locks, then their fences and then their queues in the same order
--   ARGV   for each lock: hold id, lease (ms)
--   reply  0, then the fencing token of each lock; or the position (from 1) of a lock that another holds, then what
--          acquire.lua replies for it. The position of one that is no lock follows the error NOTLOCK
--
-- Sent twice: as acquire.lua, for each lock.

-- needs: fence, lock, places, turns, grant

local call = redis.call
local n = #KEYS / 3
local reply, ours = {0}, {}
for i = 1, n do
  local ttl = call('pttl', KEYS[i])
  if ttl ~= -2 then
    ours[i] = redis.pcall('hexists', KEYS[i], ARGV[2 * i - 1]) == 1
    if not ours[i] then
      local no = foreign(KEYS[i])
      return no and redis.error_reply(no.err .. ' ' .. i) or {i, -1 - ttl}
    end
  end
end
for i = 1, n do
  local q = {lock = KEYS[i], fence = KEYS[n + i], queue = KEYS[2 * n + i]}
  if not ours[i] and redis.pcall('exists', q.queue, 'relock_yield' .. string.sub(q.fence, 13)) ~= 0 then
    local wait = leftFor(q.queue, true)
    if wait > 0 then return {i, -1 - wait} end
    local winner, bad = grant(q, {})
    if winner then return {i, -1 - claimOf(winner)} end
    if bad then return redis.error_reply(bad) end
  end
end
for i = 1, n do -- first: it may fail, and a failed script is not undone
  local bad
  reply[i + 1] = ours[i] and lastToken(KEYS[n + i])
  if not reply[i + 1] then reply[i + 1], bad = fence(KEYS[n + i]) end
  if not reply[i + 1] then return redis.error_reply(bad) end
end
for i = 1, n do
  if not ours[i] then call('hset', KEYS[i], ARGV[2 * i - 1], '1') end
  call('pexpire', KEYS[i], ARGV[2 * i])
end
return reply
