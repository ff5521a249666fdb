-- Tells dead readers from living ones. A reader whose rwlock_timeout keys have expired is
-- dead, with one exception: a process with Redisson 3.x that reads several locks renews the
-- keys of only one of them, and of the others the lock alone. Such readers live as long as
-- the lock does, if its expiry is not that of any reader's key. Whoever is about to change
-- that expiry first stores it among the intents, as others.
--
-- Before Redis 7.2 the clock goes on while a script runs, and the server may be stopped
-- between any two commands. So near takes the expiries of lock and key for equal if, to a
-- millisecond, they may have been equal between its two looks. startLease, which starts the
-- lease of a reader, makes sure that they are. If the caller passes ttl, the time to live of
-- the lock, it has just set the key itself.
--
-- leases returns how long (ms) the longest lease of the readers lasts, how long others live,
-- which readers have no key, and whether all fields are the lock's. keep stores others, and
-- kept reads them (ms).

-- include: clock
-- include: holdid
-- include: intents

local function near(lock, key)
  local most = redis.call('pttl', lock)
  local left = redis.pcall('pttl', key)
  if type(left) ~= 'number' then left = 0 end -- it is in another node already
  return left > 0 and left <= most + 1 and left >= redis.call('pttl', lock) - 1, left
end

local function startLease(lock, key, lease, ttl)
  for n = 1, 100 do
    if not (ttl and n == 1) and redis.call('pexpire', key, lease) == 0 then return false end
    if not prolong(lock, lease, n == 1 and ttl) or near(lock, key) then break end
  end
  return true
end

local function leases(lock, prefix)
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
      if most <= 0 then keyless[#keyless + 1] = fields[i] end
      longest = math.max(longest, most)
    elseif fields[i] ~= 'mode' then
      bare = false
    end
  end
  return longest, others, keyless, bare
end

local function kept(key)
  local till = tonumber(redis.call('hget', key, 'others') or 0)
  return till > 0 and math.max(till - clock(), 0) or 0
end

local function keep(lock, key, prefix)
  local _, others = leases(lock, prefix)
  if others > 0 then intend(key, 'others', others) end
end
