--!df flags=allow-undeclared-keys
-- Ends several exclusive holds.
--
--   KEYS   the locks, then their fences and then their queues in the same order
--   ARGV   for each lock: hold id, channel of the lock, claim (ms)
--   reply  for each lock: as release.lua
--
-- Sent twice: as release.lua, for each lock.

-- include: pubsub

local call, pcall = redis.call, redis.pcall
local told, n = {}, #KEYS / 3
for i = 1, n do
  local queue, id, channel, claim = KEYS[2 * n + i], unpack(ARGV, 3 * i - 2, 3 * i)
  local named = string.sub(channel, 23)
  if pcall('exists', queue, 'redisson_lock_queue' .. named, 'relock_yield' .. named) ~= 0 then
    -- include: release
    told[i] = release(KEYS[i], KEYS[n + i], queue, id, claim)
    if type(told[i]) == 'table' then told[i] = string.find(told[i].err, '^DAMAGED') and 0 or -1 end
  elseif pcall('hdel', KEYS[i], id) == 1 then
    told[i] = call(publish, channel, '0')
    if told[i] > 0 then
      -- include: yield
      yields(queue)
    end
  else
    told[i] = -1
  end
end
return told
