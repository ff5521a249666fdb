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
  local q = {lock = KEYS[i], fence = KEYS[n + i], queue = KEYS[2 * n + i]}
  told[i] = release(q, ARGV[3 * i - 2], ARGV[3 * i])
  if type(told[i]) == 'table' then told[i] = string.find(told[i].err, '^DAMAGED') and 0 or -1 end
end
return told
