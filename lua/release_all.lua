-- Ends several exclusive holds.
--
--   KEYS   the locks
--   ARGV   PUBLISH or SPUBLISH
--          then for each lock: hold id, channel of the lock
--   reply  for each lock: as release.lua
--
-- Sent twice: as release.lua, for each lock.

local call, pcall = redis.call, redis.pcall
local publish, told = ARGV[1], {}
for i = 1, #KEYS do
  if pcall('hdel', KEYS[i], ARGV[2 * i]) == 1 then
    told[i] = call(publish, ARGV[2 * i + 1], '0')
  else
    told[i] = -1
  end
end
return told
