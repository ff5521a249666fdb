--!df flags=allow-undeclared-keys
-- Ends a hold of the write side and lets in the readers that queue, else gives the lock to the next
-- writer. If nobody queues, it wakes waiters of Redisson. If the owner still reads, the lock goes
-- on in read mode. Without a hold it removes the entry from the queue, and lets in the readers that
-- it held up.
--
--   KEYS   lock, fence, queue of writers, queue of readers
--   ARGV   hold id with :write; entry
--          time (ms) for which the lock stays taken after that, 0 for none; ignored if the owner
--          reads on
--          channel of Redisson, beginning of the channels of grants, command that counts
--          subscribers (queue.lua), beginning of the rwlock_timeout keys (readers.lua)
--   reply  as mutex_release.lua
--
-- Sent twice: as mutex_release.lua.

local lock, queue, readers = KEYS[1], KEYS[3], KEYS[4]
local id, entry, rest, channel, grants, numsub, prefix = unpack(ARGV)

-- Usually nobody waits.
local told = 0
if redis.call('exists', queue, readers) == 0 and rest == '0' and redis.pcall('hlen', lock) == 2 then
  if redis.call('hdel', lock, id) == 0 then return -1 end
  redis.call('del', lock)
  local publish = numsub == 'shardnumsub' and 'spublish' or 'publish'
  told = redis.call(publish, channel, '1')
  if told == 0 then return 0 end
  redis.call(publish, channel, '00')
end

-- needs: token, core

local q = newLock(KEYS, prefix, channel, grants, numsub, id)

-- Usually a writer comes next.
if told == 0 and rest == '0' and redis.pcall('exists', readers) == 0
  and redis.pcall('hlen', lock) == 2
  and giveFirst(q, redis.pcall('zrange', queue, 0, 1, 'withscores'), id) then return 0 end

-- needs: queue, phase, readers

if told > 0 then
  mark(q)
  return told
end
local held = redis.pcall('hget', lock, id)
if held ~= '1' then
  local some = redis.pcall('zrange', queue, 0, 1)
  local first = some[1] == entry or some[1] == 'redisson' and some[2] == entry
  if redis.pcall('zrem', queue, entry) ~= 1 then return type(held) == 'table' and held or -1 end
  if first and redis.pcall('hget', lock, 'mode') == 'read' and not blocked(q) then
    dropPassed(q)
    admit(q, 'read', {})
  elseif first then
    wakeFirst(q, queue)
  end
  return 0
end
-- It stays taken until its time is over. The value 0 says that nobody has it: no script renews or
-- releases it as a hold. Waiters hear of that, to poll when it is over.
if rest ~= '0' and redis.call('hlen', lock) == 2 then
  redis.call('hset', lock, id, '0')
  redis.call('pexpire', lock, rest)
  forget(q.fence)
  remember(q.fence, rest)
  wakeFirst(q, queue)
  wakeFirst(q, readers)
  wakeRedisson(q, '1')
  return 0
end
local broken = notLock(redis.pcall('zcard', queue)) or notLock(redis.pcall('zcard', readers))
if redis.call('hlen', lock) > 2 then -- its owner reads on, and others may
  redis.call('hset', lock, 'mode', 'read')
  redis.call('hdel', lock, id)
  forget(q.fence)
  if broken then return redis.error_reply('DAMAGED WRONGTYPE') end
  if not admit(q, 'read', {}) then wakeRedisson(q, '1') end
  return 0
end
local winner, n = nil, nil -- true if readers were let in; an error if it is nil
if not broken then winner, n = passOn(q, 'write', {id}, true) end
if winner and winner ~= 'redisson' then return 0 end
redis.call('del', lock)
if winner then return leave(q, '1') end
told = wakeRedisson(q, '1')
if broken or n then return redis.error_reply('DAMAGED ' .. (n or 'WRONGTYPE')) end
if told > 0 and not q.later then mark(q) end
return told
