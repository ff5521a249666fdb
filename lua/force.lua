-- Opens a lock whoever holds it, notifies the sessions of its holders, and wakes waiters. If hold
-- ids are given it does nothing unless all holders are among them; of a semaphore it ends the
-- permits of those.
--
--   KEYS   lock, fence, queue, queues of writers and readers
--   ARGV   name of the lock
--          channels of Redisson for a Mutex and for a read-write lock
--          beginning of the channels of grants, command that counts subscribers (queue.lua)
--          hold ids …, without :write; none: whoever holds it
--   reply  1 if the lock was held, else 0; -1 if somebody else holds it; NOTLOCK, an error, if the
--          key is not a lock
--
-- Sent twice: the second finds nothing, or without hold ids opens a lock acquired in between. The
-- caller sends it again only if the first got no reply.
--
-- A Mutex goes to the next of its queue. Others are left free: the first waiters poll, and get
-- them.

-- needs: token, core, queue

local lock, named, all = KEYS[1], {}, #ARGV == 5
for i = 6, #ARGV do named[ARGV[i]] = true end
local function tellLost(id)
  redis.pcall('publish', 'relock_session:' .. sessionOf(id), 'lost ' .. id .. ' ' .. ARGV[1])
end
local q = newQueue(lock, KEYS[2], KEYS[3], ARGV[2], ARGV[4], ARGV[5], '')
if type(redis.pcall('zscore', lock, 'permits')) == 'string' then
  local first = redis.call('zrange', lock, 0, 0, 'withscores')
  if first[1] ~= 'permits' or tonumber(first[2]) >= 0 then
    return redis.error_reply('NOTLOCK permits')
  end
  local ended = {}
  for _, member in ipairs(redis.call('zrange', lock, 1, -1)) do
    local id = string.match(member, '^:?%-?(.*)')
    if named[id] or all then
      ended[#ended + 1] = member
      if isHold(member) then tellLost(member) end
    end
  end
  many('zrem', lock, ended)
  if redis.call('zcard', lock) == 1 then redis.call('del', lock) end
  if #ended > 0 then wakeFirst(q, q.queue) end
  return #ended > 0 and 1 or 0
end
local fields = redis.pcall('hkeys', lock)
local no, holds = notLock(fields), {}
if no then return no end
if #fields == 0 then return 0 end
local reads = false
for _, field in ipairs(fields) do
  if isHold(field) then
    holds[#holds + 1] = string.match(field, '^[^:]+:%-?%d+')
  elseif field == 'mode' then
    reads = true
  else
    return redis.error_reply('NOTLOCK hash')
  end
end
if #holds == 0 then return redis.error_reply('NOTLOCK hash') end
for _, id in ipairs(holds) do
  if not all and not named[id] then return -1 end
end
redis.call('del', lock)
forget(q.fence)
for _, id in ipairs(holds) do tellLost(id) end
if reads then
  q.channel = ARGV[3]
  wakeFirst(q, KEYS[4])
  wakeFirst(q, KEYS[5])
  wakeRedisson(q, '1')
  return 1
end
local some = redis.pcall('zrange', q.queue, 0, 1, 'withscores')
local winner = nil
if not some.err then winner = pass(q, some, {}) end
if winner == 'redisson' then
  leave(q, '0')
elseif not winner then
  if not some.err then dropPassed(q) end
  wakeRedisson(q, '0')
end
return 1
