-- Renews the leases of many permits, and the memory of their semaphores' last tokens.
--
--   KEYS, ARGV, reply   as renew.lua
--
-- Sent twice: leases of the same length start at the second.

-- needs: token, leases

return renewAll(function(key, id, ends)
  if type(redis.pcall('zscore', key, id)) ~= 'string' then return false end
  redis.call('zadd', key, 'xx', ends, id)
  if now + redis.call('pttl', key) < ends then redis.call('pexpireat', key, ends) end
  return true
end)
