-- Ends a hold of a Mutex or FairMutex and gives the lock to the next of the queue. If nobody
-- queues, or it is Redisson's turn, the lock is left free, and waiters of Redisson are woken.
-- Without a hold it removes the entry from the queue: its call has given up.
--
--   KEYS   lock, fence, queue
--   ARGV   hold id; entry
--          time (ms) for which the lock stays taken after that, by WithMinHold, 0 for none
--          channel of Redisson, beginning of the channels of grants, command that counts
--          subscribers (queue.lua)
--   reply    0, or how many clients of Redisson were told if the lock was left free
--            -1  there was neither hold nor entry
--            DAMAGED, an error: the hold has ended, but a key beside the lock is something else
--            WRONGTYPE, an error: the lock is something else
--
-- Sent twice: the second finds nothing. Hold ids are never used again, so it cannot end another
-- hold, however late it arrives.

local lock, fence, queue = KEYS[1], KEYS[2], KEYS[3]
local id, entry, rest, channel, grants, numsub = unpack(ARGV)

-- Usually nobody waits. The fence key may go on naming the hold: that counts only if others wait.
local some, told = redis.pcall('zrange', queue, 0, 1, 'withscores'), 0
if #some == 0 and not some.err and rest == '0' then
  local had = redis.pcall('hdel', lock, id)
  if had ~= 1 then return had == 0 and -1 or had end
  told = redis.call(numsub == 'shardnumsub' and 'spublish' or 'publish', channel, '0')
  if told == 0 then return 0 end
end

-- needs: token, core

local q = newQueue(lock, fence, queue, channel, grants, numsub, id)
if rest == '0' and giveFirst(q, some, id) then return 0 end

-- needs: queue

if told > 0 then
  mark(q)
  return told
end
local held = redis.pcall('hget', lock, id)
if held ~= '1' then
  if redis.pcall('zrem', queue, entry) == 1 then
    local first = some[1] == 'redisson' and some[3] or some[1] -- it polls for those behind it
    if first == entry then wakeFirst(q, queue) end
    return 0
  end
  return type(held) == 'table' and held or -1
end
if rest ~= '0' then -- it stays taken until its time is over: nothing renews or ends a 0
  redis.call('hset', lock, id, '0')
  redis.call('pexpire', lock, rest)
  forget(fence)
  remember(fence, rest)
  wakeFirst(q, queue)
  wakeRedisson(q, '0')
  return 0
end
local winner, n, err = nil, nil, some.err -- n is the token, or why there is none
if not err then winner, n = pass(q, some, {id}) end
if winner and winner ~= 'redisson' then return 0 end
redis.call('hdel', lock, id)
if winner then return leave(q, '0') end
if not err then dropPassed(q) end
told = wakeRedisson(q, '0')
if err or n then return redis.error_reply('DAMAGED ' .. (err or n)) end
if told > 0 and not q.later then mark(q) end
return told
