-- Renews the leases of many exclusive holds.
--
--   KEYS   the locks
--   ARGV   lease (ms), then the hold id for each lock
--   reply  the positions (from 1) of the holds that are gone
--
-- Sent twice: a lease of the same length starts at the second.
--
-- Renewal is most of what held locks cost a server. Hence PEXPIREAT: Redis rewrites each
-- PEXPIRE to it for replication, which takes a fifth of the time of the script. The leases
-- start when the script does, which is after it was sent.

local call, pcall, ids, gone = redis.call, redis.pcall, ARGV, {}
local t = call('time')
local ends = string.format('%.0f', t[1] * 1000 + math.floor(t[2] / 1000) + ARGV[1])
for i, key in ipairs(KEYS) do
  if pcall('hexists', key, ids[i + 1]) == 1 then
    call('pexpireat', key, ends)
  else
    gone[#gone + 1] = i
  end
end
return gone
