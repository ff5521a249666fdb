--!df flags=allow-undeclared-keys
-- Acquires the read side for a process, queues for it, or asks whether more readers of the process
-- may join the hold that it has.
--
--   KEYS   lock, fence, queue of writers, queue of readers, rwlock_timeout key of the hold
--   ARGV   hold id, lease (ms)
--          entry; 1 to queue it if nothing else is possible, 0 not to; the score that it had
--          before, empty if none
--          field of the write hold of the same owner, or the empty string
--          hold id to join, or the empty string
--          channel of Redisson, beginning of the channels of grants, command that counts
--          subscribers (queue.lua), beginning of the rwlock_timeout keys
--   reply  1, lease (negative if a writer waits), 0: held
--          3, 0, 0: not held; join the other hold
--          4, 0, 0: not held, and neither is the other hold
--          -1 minus the time (ms) after which to poll (0: the holder has no expiry), score, 1 if it
--          is first and Redisson has the lock, or its turn, else 0
--          NOTLOCK, an error: the key is not a lock
--
-- Sent twice: the second finds the hold, and its lease starts again, or its entry. But a call that
-- queues is never sent again; see mutex_acquire.lua.

local lock, queue, readers, timeout = KEYS[1], KEYS[3], KEYS[4], KEYS[5]
local id, lease, entry, queues, score, writer, join, channel, grants, numsub, prefix = unpack(ARGV)

-- needs: token, phase

-- Usually nobody has the lock or waits for it.
if join == '' and redis.call('exists', lock, queue, readers) == 0 then
  redis.call('set', timeout, '1', 'px', lease)
  redis.call('hset', lock, 'mode', 'read', id, '1')
  redis.call('pexpire', lock, lease)
  beginPhase(KEYS[2])
  return {1, span(lease), 0}
end

-- needs: core, queue, readers

local q = newLock(KEYS, prefix, channel, grants, numsub, id)
local mode, free, no = modeOf(lock)
local has = nil
if not free then has, no = holderOf(lock) end
if no then return no end
if join ~= '' and redis.call('hget', lock, join) ~= '1' then return {4, 0, 0} end
local held = mode and redis.call('hexists', lock, id) == 1
if mode and writer ~= '' and redis.call('hexists', lock, writer) == 1 then held = true end
local waits = held or mode == 'read' and blocked(q)
if held or mode == 'read' and not waits then
  dropPassed(q)
  if join ~= '' then return {3, 0, 0} end
  enter(q, mode, {id}, {lease}, {})
  if not held then admit(q, 'read', {}) end -- they were held up by who is not there
  return {1, span(lease, redis.call('exists', queue) == 1), 0}
end
local first = false
if queues == '1' then score, first = arrive(q, readers, entry, score) end
score = tonumber(score) or 0
if free then -- a lease has run out, or it is Redisson's turn
  if queues == '0' then redis.call('zadd', readers, us, entry) end
  local winner, n, more = passFree(q, entry, lease)
  if queues == '0' then redis.call('zrem', readers, entry) end
  if redis.call('hexists', lock, id) == 1 then
    return {1, span(lease, redis.call('exists', queue) == 1), 0}
  end
  if winner == 'redisson' and more then leave(q, '1') end
  if winner == 'redisson' then return {-1 - n, score, 1} end
  if not winner and n then return redis.error_reply(n) end
elseif first and isRedissons(has) then
  used(q)
  return {taken(lock), score, 1}
elseif first and has and mode ~= 'read' then
  want(q, has)
end
return {taken(lock), score, 0}
