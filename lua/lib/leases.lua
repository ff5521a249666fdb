-- The keys of a read-write lock, and which of its readers are alive.
--
-- The lock is Redisson's: a hash with the field mode, one field for each reader, and
-- <id>:write for the writer. Each hold of a reader has a key of its own, rwlock_timeout,
-- which expires with the lease of the reader. The hash expires with the longest lease of its
-- holders; starting a lease may prolong its life and never shortens it.
--
-- A reader whose rwlock_timeout keys have expired is dead, with one exception: a process with
-- Redisson 3.x that reads several locks renews the keys of only one of them, and of the others
-- the lock alone. Such readers live as long as the lock does, if its expiry is not that of any
-- reader's key. Whoever is about to change that expiry first gives them a key in common, which
-- lives as long.
--
-- Before Redis 7.2 the clock goes on while a script runs, and the server may be stopped
-- between any two commands. So the lease of a reader ends, in its key and in the lock, at a
-- point in time that is computed once; whether the lock ends before that is asked before
-- the clock is read, so that nobody's lease is shortened. And near takes the expiries of lock
-- and key for equal if, to a millisecond, they may have been equal between its two looks.
--
--   startLease  starts the lease of a reader, and returns when it ends, nil if there is none
--   leases      returns how long (ms) the longest lease of the readers but one lasts, how long
--               others live, which readers have no key, and whether all fields are the lock's
--   keep        stores how long others live, and kept returns it (ms)

-- include: clock
-- include: holdid

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

local function keyOfOthers(prefix) return prefix .. 'others:rwlock_timeout:1' end

local function kept(prefix)
  local left = redis.pcall('pttl', keyOfOthers(prefix))
  return type(left) == 'number' and math.max(left, 0) or 0
end

local function keep(lock, prefix)
  local _, others = leases(lock, prefix)
  if others > 0 then redis.pcall('set', keyOfOthers(prefix), 1, 'px', others) end
end
