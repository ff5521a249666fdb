-- addReaders stores readers in a lock, whose other fields may be new as well, and the keys of their
-- leases, which end then. startReading starts a phase of readers: it gives them a lock that is free,
-- or whose writer leaves and removes its field afterwards. prefix is that of the rwlock_timeout keys.
-- Readers queue with scores from readersFrom on; see lib/phases.lua.

-- include: list

local readersFrom = 4000000000000000

local function addReaders(lock, prefix, ids, ends, fields)
  for _, id in ipairs(ids) do
    fields[#fields + 1] = id
    fields[#fields + 1] = '1'
  end
  redis.call('hset', lock, unpack(fields))
  for _, id in ipairs(ids) do
    redis.call('set', prefix .. id .. ':rwlock_timeout:1', '1', 'pxat', ends)
  end
end

local function startReading(lock, prefix, ids, lease)
  local list, ends = listOf(prefix), string.format('%.0f', clock() + lease)
  addReaders(lock, prefix, ids, ends, {'mode', 'read'})
  redis.call('pexpireat', lock, ends)
  redis.pcall('del', list)
  enlist(list, ids, ends, lease, true)
end
