--!df flags=allow-undeclared-keys
-- Acquires the write side of a read-write lock that is free and that nobody queues for, or queues.
--
--   KEYS   lock, fence, queue of writers, queue of readers
--   ARGV   hold id with :write; lease (ms)
--          entry, empty not to queue; the score that it had before, empty if none
--          hold id for the fence key: - if the lease ends by itself; note (core.lua)
--          channel of Redisson, beginning of the channels of grants, command that counts
--          subscribers (queue.lua) beginning of the rwlock_timeout keys (readers.lua)
--   reply  as mutex_acquire.lua
--
-- Sent twice: as mutex_acquire.lua.

-- needs: core

local lock, fence, queue = KEYS[1], KEYS[2], KEYS[3]
local id, lease, entry, score, holder, note, channel, grants, numsub, prefix = unpack(ARGV)

local function take()
  local token, again = issue(fence, holder, lease, note)
  if not token then return redis.error_reply(again) end
  redis.call('hset', lock, 'mode', 'write', id, '1')
  redis.call('pexpire', lock, lease)
  return {token, span(lease), again}
end
if redis.call('exists', lock, queue, KEYS[4]) == 0 then return take() end

local q, ttl = newLock(KEYS, prefix, channel, grants, numsub, id), redis.call('pttl', lock)
if ttl ~= -2 then
  local has, no = holderOf(lock)
  if no then return no end
  if entry == '' then
    if redis.call('hget', lock, id) ~= '1' then return {-1 - ttl, 0, 0} end
    if ttl < tonumber(lease) then redis.call('pexpire', lock, lease) end
    remember(fence, lease)
    return {fenceOf(fence) or (issue(fence, holder, lease)), span(lease), 1}
  end
  local arrived, first = arrive(q, queue, entry, score)
  if first and isRedissons(has) then
    used(q)
    return {-1 - ttl, arrived, 1}
  end
  if first and has and redis.call('hget', lock, 'mode') ~= 'read' then want(q, has) end
  return {-1 - ttl, arrived, 0}
end

-- needs: queue, phase, readers

-- It is free: a lease has run out, or it is Redisson's turn.
if entry ~= '' then score = arrive(q, queue, entry, score) end
score = tonumber(score) or 0
local winner, n, more, again = passFree(q, entry, lease, holder)
if winner == entry then return {n, span(lease, more), again} end
if not winner and n then return redis.error_reply(n) end
if entry == '' and not winner then return take() end
if winner == 'redisson' and more then leave(q, '1') end
if not winner or winner == 'redisson' then return {-1 - (winner and n or 1), score, 1} end
return {taken(lock), score, 0}
