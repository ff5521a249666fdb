-- Renews the leases of write holds. It does not shorten the expiry of a lock whose owner has
-- a longer lease as a reader.
--
--   KEYS   the locks
--   ARGV   lease (ms), then the field of the hold for each lock
--   reply  the positions (from 1) of the holds that are gone
--
-- Sent twice: a lease of the same length starts at the second.

local gone = {}
for i, key in ipairs(KEYS) do
  if redis.pcall('hexists', key, ARGV[i + 1]) == 1 then
    if redis.call('pttl', key) < tonumber(ARGV[1]) then redis.call('pexpire', key, ARGV[1]) end
  else
    gone[#gone + 1] = i
  end
end
return gone
