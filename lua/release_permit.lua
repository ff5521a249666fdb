--!df flags=allow-undeclared-keys
-- Ends a permit and gives it to the next of the queue. Without a permit, it ends the place in the queue.
--
--   KEYS   semaphore, queue, fence
--   ARGV   hold id
--          limit, and behind a space the claim (ms)
--          hold id that keeps the permit for a while, and that while (ms), as in release.lua
--   reply  0, or -1 if there was neither permit nor place; DAMAGED, an error, as release.lua
--
-- Sent twice: the second finds nothing. The member permits keeps the key until the end, as in grant.lua.

local lock, queue, id, rest = KEYS[1], KEYS[2], ARGV[1], ARGV[3]
local slot = redis.pcall('zscore', lock, ':' .. id)
local held = type(slot) == 'string'
if held then
  redis.call('zrem', lock, id, ':' .. id)
  if not rest and redis.call('exists', queue) == 0 then -- mostly nobody waits
    if redis.call('zcard', lock) == 1 then redis.call('del', lock) end
    return 0
  end
end

-- needs: fence, lock, permits, places, fill

if held and rest then
  redis.call('zadd', lock, slot, ':' .. rest, '1', rest)
  prolong(lock, rest, ARGV[4])
  tellFirst(queue)
  return 0
end
if not held then
  if slot and not wrongType(slot) then return slot end
  local place, first = placeOf(id, ARGV[2]), firstOf(queue, redis.pcall)[1]
  if redis.pcall('zrem', queue, place) ~= 1 then return slot or -1 end
  if slot or first ~= place then return 0 end
end
local q = {lock = lock, queue = queue, fence = KEYS[3], free = held and tonumber(slot)}
local no = count(q)
if no then return no end
local bad = fill(q)
if q.n == 0 then redis.call('del', lock) end
return bad and redis.error_reply('DAMAGED ' .. bad) or 0
