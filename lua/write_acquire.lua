--!df flags=allow-undeclared-keys
-- Acquires the write side of a read-write lock that is free and that nobody queues for, or queues.
--
--   KEYS   lock, fence, queue of writers, queue of readers
--   ARGV   hold id with :write; lease (ms)
--          entry, empty not to queue; the score that it had before, empty if none
--          hold id for the fence key: - if the lease ends by itself; note (token.lua)
--          channel of Redisson, beginning of the channels of grants, command that counts
--          subscribers (queue.lua), beginning of the rwlock_timeout keys (readers.lua)
--   reply  as mutex_acquire.lua
--
-- Sent twice: as mutex_acquire.lua.

-- needs: token

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

-- needs: core

local q, ttl = newLock(KEYS, prefix, channel, grants, numsub, id), redis.call('pttl', lock)
if ttl ~= -2 then return behind(q, ttl, id, lease, entry, score, holder) end

-- needs: queue, phase, readers

-- It is free: a lease has run out, or it is Redisson's turn.
q.note = note
if entry ~= '' then score = arrive(q, queue, entry, score) end
score = tonumber(score) or 0
local winner, n, more, again = passFree(q, entry, lease, holder)
if winner == entry then return {n, span(lease, more), again} end
if not winner and n then return redis.error_reply(n) end
if entry == '' and not winner and #q.gone < most then return take() end
if winner == 'redisson' and more then leave(q, '1') end
if not winner or winner == 'redisson' then return {-1 - (winner and n or 1), score, 1} end
return {taken(lock), score, 0}
