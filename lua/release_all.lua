--!df flags=allow-undeclared-keys
-- Ends several exclusive holds.
--
--   KEYS   the locks, then their fences and then their queues in the same order
--   ARGV   for each lock: hold id, channel of the lock, claim (ms)
--   reply  for each lock: as release.lua
--
-- Sent twice: as release.lua, for each lock.

-- needs: fence, lock, places, turns, grant

local told, n = {}, #KEYS / 3
for i = 1, n do
  local q, id = {lock = KEYS[i], fence = KEYS[n + i], queue = KEYS[2 * n + i]}, ARGV[3 * i - 2]
  if redis.pcall('hexists', q.lock, id) == 1 then
    local first = firstOf(q.queue, redis.pcall)
    if first.err or leaves(q.queue, first[1]) or not grant(q, {id}, nil, first) then
      redis.call('hdel', q.lock, id)
      told[i] = notify(q.queue, '0')
    end
  elseif redis.pcall('zrem', q.queue, placeOf(id, ARGV[3 * i])) ~= 1 then
    told[i] = -1
  end
  told[i] = told[i] or 0
end
return told
