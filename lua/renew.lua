--!df flags=allow-undeclared-keys
-- Renews the leases of many exclusive holds and permits, and keeps their last fencing tokens. It does not shorten the
-- expiry of a read-write lock whose writer has a longer lease as a reader.
--
--   KEYS   the locks
--   ARGV   the hold id for each lock, with :write for a writer, and behind a colon for a permit
--          then for each run of locks with equal leases: their number, the lease (ms)
--   reply  the positions (from 1) of the holds that are gone
--
-- Sent twice: leases of the same length start at the second.
--
-- Renewal is most of what held locks cost a server. Hence PEXPIREAT: Redis rewrites each PEXPIRE to it for
-- replication, which takes a fifth of the time of the script. The leases start when the script does, which is after
-- it was sent.

local call, pcall, ids, gone = redis.call, redis.pcall, ARGV, {}
local t = call('time')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local run, left, ends, lease = #KEYS - 1, 0, nil, nil
for i, key in ipairs(KEYS) do
  if left == 0 then
    run = run + 2
    left, lease = tonumber(ARGV[run]), tonumber(ARGV[run + 1])
    ends = string.format('%.0f', now + lease)
  end
  left = left - 1
  local permit = string.match(ids[i], '^:(.*)')
  local held = pcall(permit and 'zscore' or 'hexists', key, permit or ids[i])
  if permit and type(held) == 'string' then
    held = 1
    call('zadd', key, 'xx', ends, permit)
  end
  if held ~= 1 then
    gone[#gone + 1] = i
  elseif not (permit or string.sub(ids[i], -6) == ':write') or now + call('pttl', key) < tonumber(ends) then
    call('pexpireat', key, ends)
  end
  local fence = 'relock_fence:' .. (string.find(key, '{', 1, true) and key or '{' .. key .. '}')
  local kept = pcall('pttl', fence)
  if type(kept) == 'number' and kept > 0 and kept < 2 * lease then
    pcall('pexpireat', fence, string.format('%.0f', now + 2 * lease + 60000))
  end
end
return gone
