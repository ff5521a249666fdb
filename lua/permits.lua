-- The permits of a semaphore: one sorted set at its name, and no counter that could differ from it.
-- Its members are
--
--   permits     with minus the limit of whoever acquired last: it is the first
--   :<hold id>  with the slot of a holder: these follow, in order of the slots
--   <hold id>   with the time (ms) at which the lease of a holder ends: these come last
--
-- The key expires with the last lease. A holder whose lease has ended counts until a script that
-- gives permits has removed it. q is as in queue.lua; q.n is the number of holders.
--
-- q.expired says that the key is gone, perhaps with their leases.
--
-- Who is first may have a smaller limit than others, and so hold them up. Only its own polls keep
-- the queue alive: if it is frozen, the queue expires, and all others come back.

local function newSemaphore(keys, grants, numsub, id)
  local q = newQueue(keys[1], keys[2], keys[3], '', grants, numsub, id)
  q.lives, q.lull, q.form = 4000, math.huge, '^(%S+) [1-9]%d* (%d+)$'
  return q
end

local aTime = 100000000000 -- (ms) greater than any slot

local function limitOf(entry) return tonumber(string.match(entry, '^%S+ (%d+) %d+$') or 0) end

-- endAt returns when the lease ends that does so first.
local function endAt(q)
  return tonumber(redis.call('zrange', q.lock, q.n + 1, q.n + 1, 'withscores')[2]) or 0
end

-- count sets q.n after removing holders whose lease has ended, 1000 at most. It returns the
-- sessions of those, and an error if the key is not a semaphore, or if somebody has added members
-- to it.
local function count(q)
  local first = redis.pcall('zrange', q.lock, 0, 0, 'withscores')
  local no = redis.error_reply('NOTLOCK permits')
  if first.err then return {}, string.find(first.err, 'WRONGTYPE', 1, true) and no or first end
  local size, ended = redis.call('zcard', q.lock), {}
  q.n, q.expired = math.max(size - 1, 0) / 2, size == 0
  if size > 0 and (first[1] ~= 'permits' or tonumber(first[2]) >= 0 or q.n % 1 ~= 0) then
    return ended, no
  end
  if q.n == 0 or endAt(q) >= now then return ended end
  if endAt(q) < aTime then return ended, no end
  local members, before = {}, string.format('(%.0f', now)
  for _, id in ipairs(redis.call('zrangebyscore', q.lock, aTime, before, 'limit', 0, 1000)) do
    members[#members + 1], members[#members + 2] = id, ':' .. id
    ended[sessionOf(id)] = true
  end
  q.n = q.n - redis.call('zrem', q.lock, unpack(members)) / 2
  return ended, q.n % 1 ~= 0 and no or nil
end

-- slotFree returns the lowest free slot.
local function slotFree(q)
  local low, high = 0, q.n
  local probe = high - 1 -- mostly there is no gap
  while low < high do
    if redis.call('zcount', q.lock, '0', probe) > probe then low = probe + 1 else high = probe end
    probe = math.floor((low + high) / 2)
  end
  return low
end

-- expire has the key end with the last lease. Somebody may have written a time that is too large.
local function expire(lock)
  local ends = redis.call('zrange', lock, -1, -1, 'withscores')[2]
  if tonumber(ends) > 9e15 then ends = '9000000000000000' end
  redis.call('pexpireat', lock, ends)
end

-- prolong starts the lease of a holder again, unless it is longer.
local function prolong(lock, id, lease)
  redis.call('zadd', lock, 'xx', 'gt', now + lease, id)
  expire(lock)
end

-- take gives a permit; holder is for the fence key. It returns the token and the slot, or nil and
-- an error.
local function take(q, id, limit, lease, holder)
  local token, err = issue(q.fence, holder, lease)
  if not token then return nil, err end
  local slot = slotFree(q)
  local ends = now + lease
  redis.call('zadd', q.lock, -limit, 'permits', slot, ':' .. id, ends, id)
  expire(q.lock)
  q.n = q.n + 1
  return token, slot
end

-- fill gives permits to entries of the queue while the first that is there may have one, 100 at
-- most: then the next one polls. Holders whose lease has ended lose their entries as well, if their
-- sessions are among ended. asks is an entry whose call learns of a grant by the reply; all others
-- are told. It returns token, slot and whether others wait if that was given a permit, or nil and
-- an error.
local function fill(q, ended, asks, lease, holder)
  local token, slot, more
  if q.expired then lapsed(q) end
  for session in pairs(ended) do
    if session ~= q.session then dropSession(q, session) end
  end
  for given = 0, 100 do
    local some = redis.call('zrange', q.queue, 0, 1, 'withscores')
    local entry, others = nextOf(q, some)
    q.more = not entry and #q.gone >= most -- are to be passed
    dropPassed(q)
    q.gone = {}
    if not entry or q.n >= limitOf(entry) then break end
    local id, limit = idOf(entry), limitOf(entry)
    if given == 100 then
      callUp(q, entry)
      break
    end
    local its, at
    if entry == asks then
      its, at = take(q, id, limit, lease, holder)
    else
      its, at = take(q, id, limit, grantOf(entry), id)
    end
    if not its then
      callUp(q, entry)
      return nil, at
    end
    redis.call('zrem', q.queue, entry)
    if entry == asks then
      token, slot, more = its, at, others
    else
      local text = string.format('%.0f/%d %s%d ', its, at, others and '+' or '', grantOf(entry))
      tell(q, sessionOf(entry), 'granted ' .. id .. ' ' .. text .. q.lock)
    end
  end
  return token, slot, more
end

-- keepAlive has the queue outlive the next poll of an entry, unless only others before it hold it
-- up, which may be dead.
local function keepAlive(q, entry)
  if q.more or q.n >= limitOf(entry) or redis.call('zrange', q.queue, 0, 0)[1] == entry then
    redis.call('pexpire', q.queue, q.lives)
  end
end

-- waitFor returns after how long (ms) a permit may be free.
local function waitFor(q)
  return q.more and 1 or q.n > 0 and math.max(endAt(q) - now, 0) or 1000
end

-- wantPermits tells the sessions of holders that others wait.
local function wantPermits(q)
  local told = {}
  for _, id in ipairs(redis.call('zrange', q.lock, q.n + 1, q.n + 100)) do
    if not told[sessionOf(id)] then want(q, id) end
    told[sessionOf(id)] = true
  end
end
