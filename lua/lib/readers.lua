-- startReading gives a lock that nobody keeps to readers, for a lease, whatever their list said; prefix
-- is that of the rwlock_timeout keys. A writer that leaves removes its field afterwards.

-- include: list

local function startReading(lock, prefix, ids, lease)
  local list, ends = listOf(prefix), string.format('%.0f', clock() + lease)
  local fields = {'mode', 'read'}
  for _, id in ipairs(ids) do
    fields[#fields + 1] = id
    fields[#fields + 1] = '1'
  end
  redis.call('hset', lock, unpack(fields))
  for _, id in ipairs(ids) do
    redis.call('set', prefix .. id .. ':rwlock_timeout:1', '1', 'pxat', ends)
  end
  redis.call('pexpireat', lock, ends)
  redis.pcall('del', list)
  enlist(list, ids, ends, lease, true)
end
