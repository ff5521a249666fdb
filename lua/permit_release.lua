-- Ends a permit and gives it to the next of the queue. Without a permit, it removes the entry from
-- the queue.
--
--   KEYS   semaphore, fence, queue
--   ARGV   hold id; entry
--          time (ms) for which the permit stays taken all the same, 0 for none
--          beginning of the channels of grants, command that counts subscribers (queue.lua)
--   reply  0, or -1 if there was neither permit nor entry; DAMAGED, an error, as mutex_release.lua
--
-- Sent twice: the second finds nothing.

local lock, queue, id, entry, rest = KEYS[1], KEYS[3], ARGV[1], ARGV[2], ARGV[3]
local slot = redis.pcall('zscore', lock, ':' .. id)
local held = type(slot) == 'string'
if held and rest == '0' then
  redis.call('zrem', lock, id, ':' .. id)
  if redis.call('exists', queue) == 0 then -- usually nobody waits
    if redis.call('zcard', lock) == 1 then redis.call('del', lock) end
    return 0
  end
end

-- needs: token, core, queue, permits

local q = newSemaphore(KEYS, ARGV[4], ARGV[5], id)
if held and rest ~= '0' then -- under another name, which nobody renews
  redis.call('zadd', lock, slot, ':-' .. id, now + rest, '-' .. id)
  redis.call('zrem', lock, id, ':' .. id)
  expire(lock)
  wakeFirst(q, queue)
  return 0
end
if not held then
  local first = redis.pcall('zrange', queue, 0, 0)[1] == entry
  if redis.pcall('zrem', queue, entry) ~= 1 then return notLock(slot) and slot or -1 end
  if not first or type(slot) == 'table' then return 0 end
end
local ended, no = count(q)
if no then return no end
local some = redis.pcall('zrange', queue, 0, 0)
local _, err = nil, some.err
if not err then _, err = fill(q, ended) end
if q.n == 0 then
  redis.call('del', lock)
  forget(q.fence)
end
return err and redis.error_reply('DAMAGED ' .. err) or 0
