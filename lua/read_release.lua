--!df flags=allow-undeclared-keys
-- Ends the read hold of a process, or its entry in the queue. The last reader gives the lock to the
-- next writer, else to readers that queue. If others still read, the lock lives on as it does:
-- nothing shortens its expiry. If it is to stay taken for a while after the last one (phase.lua),
-- a field stays for so long, with a 0.
--
--   KEYS   lock, fence, queue of writers, queue of readers, rwlock_timeout key of the hold
--   ARGV   hold id; entry
--          time (ms) for which the lock stays taken all the same, 0 for none
--          channel of Redisson, beginning of the channels of grants, command that counts
--          subscribers (queue.lua), beginning of the rwlock_timeout keys
--   reply  as mutex_release.lua
--
-- Sent twice: the second finds nothing.

local lock, fence, queue, readers, timeout = unpack(KEYS)
local id, entry, ms, channel, grants, numsub, prefix = unpack(ARGV)

-- needs: token, phase

local held, told, rests = redis.pcall('hget', lock, id), 0, 0
if held == '1' then
  if ms ~= '0' and redis.call('hget', lock, 'mode') == 'read' then -- else its owner writes on
    stay(lock, fence, ms)
  end
  redis.call('del', timeout)
  local others, field0 = redis.call('hlen', lock) - 2, nil
  if others == 1 then -- perhaps the one that stays with a 0
    local all = redis.call('hgetall', lock)
    for i = 1, #all, 2 do
      if all[i + 1] == '0' then field0 = all[i] end
    end
  end
  if others > 0 and not field0 then
    redis.call('hdel', lock, id)
    return 0
  end
  rests = restsUntil(fence)
  if rests > now then
    redis.call('hset', lock, field0 or id, '0')
    redis.call('pexpire', lock, rests - now)
    if field0 then redis.call('hdel', lock, id) end
  elseif redis.call('exists', queue, readers) == 0 then -- usually nobody waits
    redis.call('del', lock)
    told = redis.call(numsub == 'shardnumsub' and 'spublish' or 'publish', channel, '0')
    if told == 0 then return 0 end
  else
    redis.call('hdel', lock, id, field0 or id)
  end
end

-- needs: core, queue, readers

local q = newLock(KEYS, prefix, channel, grants, numsub, id)
if told > 0 then
  mark(q)
  return told
end
if rests > now then
  wakeFirst(q, queue)
  return 0
end
if held ~= '1' then
  if held == '0' then return -1 end
  redis.call('del', timeout)
  if redis.pcall('zrem', readers, entry) == 1 then return 0 end
  return type(held) == 'table' and held or -1
end
local broken = notLock(redis.pcall('zcard', queue)) or notLock(redis.pcall('zcard', readers))
local winner, n = nil, nil
if not broken then winner, n = passOn(q, nil, {}, false) end
if winner and winner ~= 'redisson' then return 0 end
redis.call('del', lock)
if winner then return leave(q, '0') end
told = wakeRedisson(q, '0')
if broken or n then return redis.error_reply('DAMAGED ' .. (n or 'WRONGTYPE')) end
if told > 0 and not q.later then mark(q) end
return told
