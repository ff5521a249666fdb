-- Renews the leases of write holds. It does not shorten the expiry of a lock whose owner has
-- a longer lease as a reader.
--
--   KEYS   the locks
--   ARGV   the field of the hold for each lock
--          then for each run of locks with equal leases: their number, the lease (ms)
--   reply  the positions (from 1) of the holds that are gone
--
-- Sent twice: leases of the same length start at the second.

local gone = {}
local run, left, lease = #KEYS - 1, 0, nil
for i, key in ipairs(KEYS) do
  if left == 0 then
    run = run + 2
    left, lease = tonumber(ARGV[run]), ARGV[run + 1]
  end
  left = left - 1
  if redis.pcall('hexists', key, ARGV[i]) == 1 then
    if redis.call('pttl', key) < tonumber(lease) then redis.call('pexpire', key, lease) end
  else
    gone[#gone + 1] = i
  end
end
return gone
