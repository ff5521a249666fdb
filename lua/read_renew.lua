-- Renews the leases of many read holds.
--
--   KEYS   for each hold: lock, rwlock_timeout key
--   ARGV   the hold id for each lock
--          then for each run of holds with equal leases: their number, the lease (ms)
--   reply  the positions (from 1) of the holds that are gone
--
-- Sent twice: leases of the same length start at the second.

-- needs: token

local gone = {}
local run, left, lease = #KEYS / 2 - 1, 0, nil
for i = 1, #KEYS / 2 do
  if left == 0 then
    run = run + 2
    left, lease = tonumber(ARGV[run]), tonumber(ARGV[run + 1])
  end
  left = left - 1
  local lock, timeout, ends = KEYS[2 * i - 1], KEYS[2 * i], now + lease
  if redis.pcall('hget', lock, ARGV[i]) ~= '1' or redis.call('pexpireat', timeout, ends) == 0 then
    gone[#gone + 1] = i
  elseif redis.call('pttl', lock) < lease then
    redis.call('pexpireat', lock, ends)
  end
end
return gone
