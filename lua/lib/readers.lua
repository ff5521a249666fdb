-- The readers of a read-write lock, and which of them are alive.
--
-- The lock is Redisson's: a hash with the field mode, one field for each reader, and <id>:write for the writer. Each
-- hold of a reader has a key rwlock_timeout, which expires with its lease. The hash expires with the longest lease of
-- its holders; starting a lease never shortens it. A reader whose keys have expired is dead, with one exception: a
-- process with Redisson 3.x that reads several locks renews the keys of only one of them, and of the others the lock
-- alone. Such readers live as long as the lock does, if its expiry is not that of any reader's key. Whoever is about
-- to change that expiry first gives them a key in common, others:rwlock_timeout:1, which lives as long.
--
-- Time goes on while a script runs. So a lease ends, in its key and in the lock, at a point in time that is computed
-- once; whether the lock ends before is asked before the clock is read. And near takes the expiries of lock and key
-- for equal if, to a millisecond, they may have been equal between its two looks.
--
-- So that nobody has to walk over all readers, relock_readers lists relock's own: a sorted set of hold ids with the
-- times (ms) at which their leases end. If it names as many readers as the lock has, Redisson has none there, the
-- lock lives as long as the last of the list, and nobody dies before the first. Others delete a lock as a whole, and
-- hold ids are used once: so the list names readers of the present lock or none, and it is enough to look for the
-- first. A reader that is missing in it counts as Redisson's until it renews its lease. The user may have no right to
-- the list.
--
--   startLease    starts the lease of a reader, and returns when it ends, nil if there is none
--   leases        returns how long (ms) the longest lease of the readers but one lasts, how long Redisson's without
--                 keys live, which readers have no key, and whether all fields are the lock's
--   keepOthers    stores how long those without keys live, and othersLive returns it (ms)
--   listed        returns whether the list is of the present lock, and whether it names all readers
--   allLive       returns whether the list names all readers and they are alive
--   lastLease     returns how long (ms) the longest lease of the other readers lasts, for a reader that was just
--                 removed from the list; 0 if the list does not tell
--   enlist        adds readers. The list lives for two of their leases if it is new, or would not outlive one
--   addReaders    stores readers in a lock, whose other fields may be new as well, and the keys of their leases
--   startReading  starts a phase of readers: it gives them a lock that is free, or whose writer leaves

local function near(lock, key)
  local most = redis.call('pttl', lock)
  local left = redis.pcall('pttl', key)
  if type(left) ~= 'number' then left = 0 end -- it is in another node already
  return left > 0 and left <= most + 1 and left >= redis.call('pttl', lock) - 1, left
end

local function startLease(lock, key, lease)
  local ttl, ends = redis.call('pttl', lock), string.format('%.0f', clock() + lease)
  if redis.call('pexpireat', key, ends) == 0 then return nil end
  if ttl < tonumber(lease) then redis.call('pexpireat', lock, ends) end
  return ends
end

local function leases(lock, prefix, but)
  local longest, others, keyless, bare = 0, redis.call('pttl', lock), {}, true
  local fields = redis.call('hgetall', lock)
  for i = 1, #fields, 2 do
    if isHold(fields[i]) then
      local most = 0
      for n = 1, tonumber(fields[i + 1]) or 0 do
        local same, left = near(lock, prefix .. fields[i] .. ':rwlock_timeout:' .. n)
        if same then others = 0 end
        most = math.max(most, left)
      end
      if fields[i] ~= but then
        if most <= 0 then keyless[#keyless + 1] = fields[i] end
        longest = math.max(longest, most)
      end
    elseif fields[i] ~= 'mode' then
      bare = false
    end
  end
  return longest, others, keyless, bare
end

local function othersLive(prefix)
  local left = redis.pcall('pttl', prefix .. 'others:rwlock_timeout:1')
  return type(left) == 'number' and math.max(left, 0) or 0
end

local function keepOthers(lock, prefix)
  local _, others = leases(lock, prefix)
  if others > 0 then redis.pcall('set', prefix .. 'others:rwlock_timeout:1', 1, 'px', others) end
end

local function listOf(prefix) return 'relock_readers:' .. string.sub(prefix, 1, -2) end

local function listed(lock, list)
  local id = redis.pcall('zrange', list, 0, 0)[1]
  if not id or redis.call('hexists', lock, id) == 0 then return false end
  return true, redis.call('zcard', list) == redis.call('hlen', lock) - 1
end

local function allLive(lock, list)
  if not select(2, listed(lock, list)) then return false end
  return tonumber(redis.call('zrange', list, 0, 0, 'withscores')[2]) > clock()
end

local function lastLease(list, prefix, readers)
  if redis.pcall('zcard', list) ~= readers then return 0 end
  local left = redis.pcall('pttl', prefix .. redis.call('zrange', list, -1, -1)[1] .. ':rwlock_timeout:1')
  return type(left) == 'number' and left or 0
end

local function enlist(list, ids, ends, lease, new)
  local added = {}
  for _, id in ipairs(ids) do added[#added + 1], added[#added + 2] = ends, id end
  local n = redis.pcall('zadd', list, unpack(added))
  if type(n) == 'number' and (new or redis.call('pttl', list) < tonumber(lease)) then
    redis.call('pexpire', list, 2 * lease)
  end
end

local function addReaders(lock, prefix, ids, ends, fields)
  for _, id in ipairs(ids) do fields[#fields + 1], fields[#fields + 2] = id, '1' end
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
