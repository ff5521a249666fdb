-- The permits of a semaphore: one sorted set at its name, and no counter that could differ from it. Its members are
--
--   permits     with minus the limit of whoever acquired last: it is the first
--   :<hold id>  with the slot of a holder: these follow, in order of the slots
--   <hold id>   with the time (ms) at which the lease of a holder ends: these come last
--
-- The key expires with the last lease. A holder whose lease has ended counts until a script that gives permits has
-- removed it, so it may still be renewed. q has the lock, its fence and queue.
--
--   endAt     returns when the lease ends that does so first
--   count     sets q.n, the number of holders, and q.now, after removing those whose lease has ended, 1000 at most:
--             then q.lapsed is set, as when the key has expired. It returns an error if the key is no semaphore, or
--             if somebody has added members to it: then nobody can say how many hold, or which slots are free
--   freeSlot  returns the lowest free slot. q.free is one that is free, if the script knows one
--   waitFor   returns after how long (ms) to look again
--   keep      has the key live until the last lease ends
--   prolong   starts the lease of a holder again, unless it is longer
--   take      gives a permit, and returns its slot

local aTime = 100000000000 -- (ms) greater than any slot

local function endAt(q) return tonumber(redis.call('zrange', q.lock, q.n + 1, q.n + 1, 'withscores')[2]) or 0 end

local function count(q)
  local first, no = redis.pcall('zrange', q.lock, 0, 0, 'withscores'), redis.error_reply('NOTLOCK permits')
  if first.err then return string.find(first.err, 'WRONGTYPE', 1, true) and no or first end
  local size = redis.call('zcard', q.lock)
  q.n, q.now, q.lapsed = math.max(size - 1, 0) / 2, clock(), size == 0
  if size > 0 and (first[1] ~= 'permits' or tonumber(first[2]) >= 0 or q.n % 1 ~= 0) then return no end
  if q.n == 0 or endAt(q) >= q.now then return nil end
  if endAt(q) < aTime then return no end
  local gone, ended = {}, string.format('(%.0f', q.now)
  for _, id in ipairs(redis.call('zrangebyscore', q.lock, aTime, ended, 'limit', 0, 1000)) do
    gone[#gone + 1], gone[#gone + 2] = id, ':' .. id
  end
  q.n, q.lapsed = q.n - redis.call('zrem', q.lock, unpack(gone)) / 2, true
  if q.n % 1 ~= 0 then return no end
end

local function freeSlot(q)
  local low, high = 0, math.min(q.free or q.n, q.n)
  local probe = high - 1 -- mostly there is no gap
  while low < high do
    if redis.call('zcount', q.lock, '0', probe) > probe then low = probe + 1 else high = probe end
    probe = math.floor((low + high) / 2)
  end
  return low
end

local function waitFor(q) return q.n > 0 and math.max(endAt(q) - q.now, 0) or 1000 end

local function keep(lock) redis.call('pexpireat', lock, redis.call('zrange', lock, -1, -1, 'withscores')[2]) end

local function prolong(lock, id, lease)
  redis.call('zadd', lock, 'xx', 'gt', string.format('%.0f', clock() + lease), id)
  keep(lock)
end

local function take(q, id, permits, lease)
  local slot, ends = freeSlot(q), string.format('%.0f', q.now + lease)
  redis.call('zadd', q.lock, '-' .. permits, 'permits', slot, ':' .. id, ends, id)
  keep(q.lock)
  q.n, q.free = q.n + 1, nil
  return slot
end
