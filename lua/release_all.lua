--!df flags=allow-undeclared-keys
-- Ends several exclusive holds.
--
--   KEYS   the locks, then their fences and then their queues in the same order
--   ARGV   claim (ms)
--          then for each lock: hold id, channel of the lock
--   reply  for each lock: as release.lua
--
-- Sent twice: as release.lua, for each lock.

-- include: pubsub

local call, pcall = redis.call, redis.pcall
local told, n = {}, #KEYS / 3
for i = 1, n do
  local queue, id, channel = KEYS[2 * n + i], ARGV[2 * i], ARGV[2 * i + 1]
  if pcall('exists', queue, 'redisson_lock_queue' .. string.sub(queue, 13)) ~= 0 then
    -- include: release
    told[i] = release(KEYS[i], KEYS[n + i], queue, id, channel, ARGV[1], 0)
    if type(told[i]) == 'table' then told[i] = -1 end
  elseif pcall('hdel', KEYS[i], id) == 1 then
    told[i] = call(publish, channel, '0')
  else
    told[i] = -1
  end
end
return told
