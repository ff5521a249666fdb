-- Acquires a Mutex or FairMutex that is free and that nobody queues for, or queues.
--
--   KEYS   lock, fence, queue
--   ARGV   hold id; lease (ms)
--          entry of the queue, empty not to queue; the score that it had before, empty if none
--          hold id for the fence key: - if the lease ends by itself; note (token.lua)
--          channel of Redisson, beginning of the channels of grants, command that counts
--          subscribers (queue.lua)
--   reply  token, lease (negative if others wait behind it), 2 or 1 as of issue (token.lua): this
--          hold id has the lock
--          -1 minus the time (ms) after which to poll (0: the holder has no expiry), score, 1 if it
--          is first and Redisson has the lock, or its turn, else 0
--          NOTLOCK, an error: the key is not a lock
--
-- Sent twice: the second finds the hold of this id, renews its lease and returns the same token; or
-- its entry. But if it came after the first hold or entry had ended, it would queue again. So a
-- call that queues is never sent again.

-- needs: token

local lock, fence, queue = KEYS[1], KEYS[2], KEYS[3]
local id, lease, entry, score, holder, note, channel, grants, numsub = unpack(ARGV)

local function take()
  local token, again = issue(fence, holder, lease, note)
  if not token then return redis.error_reply(again) end
  redis.call('hset', lock, id, '1')
  redis.call('pexpire', lock, lease)
  return {token, span(lease), again}
end
if redis.call('exists', lock, queue) == 0 then return take() end

-- needs: core

local q, ttl = newQueue(lock, fence, queue, channel, grants, numsub, id), redis.call('pttl', lock)
if ttl ~= -2 then return behind(q, ttl, id, lease, entry, score, holder) end

-- needs: queue

-- It is free: a lease has run out, or it is Redisson's turn.
q.note = note
if entry ~= '' then score = arrive(q, queue, entry, score) end
lapsed(q)
local some = redis.call('zrange', queue, 0, 1, 'withscores')
local winner, n, more, again = pass(q, some, {}, entry, lease, holder)
if winner == entry then return {n, span(lease, more), again} end
dropPassed(q)
if not winner and n then return redis.error_reply(n) end
if entry == '' and not winner and #q.gone < most then return take() end
if winner == 'redisson' and more then leave(q, '0') end
if not winner or winner == 'redisson' then
  return {-1 - (winner and n or 1), tonumber(score) or 0, 1}
end
return {taken(lock), tonumber(score) or 0, 0}
