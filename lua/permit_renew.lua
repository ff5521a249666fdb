-- Renews the leases of many permits, and the memory of their semaphores' last tokens.
--
--   KEYS, ARGV, reply   as renew.lua
--
-- Sent twice: leases of the same length start at the second.

-- needs: core

local gone = {}
local n = #KEYS == 1 and 1 or #KEYS / 2
local run, left, ends, lease = n - 2, 0, nil, nil
for i = 1, n do
  if left == 0 then
    run = run + 3
    left, lease = tonumber(ARGV[run]), tonumber(ARGV[run + 1])
    ends = now + lease
  end
  left = left - 1
  local key, fence = KEYS[i], KEYS[n + i]
  if type(redis.pcall('zscore', key, ARGV[i])) ~= 'string' then
    gone[#gone + 1] = i
  else
    redis.call('zadd', key, 'xx', ends, ARGV[i])
    if now + redis.call('pttl', key) < tonumber(ends) then redis.call('pexpireat', key, ends) end
  end
  local lives = fence and redis.pcall('pttl', fence)
  if type(lives) == 'number' and lives > 0 then
    if ARGV[run + 2] == '1' then forget(fence) end
    if lives < 2 * lease then
      redis.call('pexpireat', fence, now + 2 * lease + 60000)
    end
  end
end
return gone
