-- Acquires a permit of a semaphore, with the lowest free slot, if fewer are held than the limit and
-- nobody queues who may have one; or queues. Others that queue get what is free first.
--
--   KEYS   semaphore, fence, queue
--   ARGV   hold id; lease (ms)
--          entry; 1 to queue it, 0 not to; the score that it had before, empty if none
--          hold id for the fence key: - if the lease ends by itself
--          beginning of the channels of grants, command that counts subscribers (queue.lua)
--   reply  token, lease (negative if others wait), slot: this hold id has a permit
--          -1 minus the time (ms) after which to poll, score, 0
--          NOTLOCK, an error: the key is not a semaphore
--
-- Sent twice: the second finds the permit of this id, renews its lease, and issues a greater token,
-- since others may have got one meanwhile; or it finds its entry. But a call that queues is never
-- sent again; see mutex_acquire.lua.

-- needs: token, core, queue, permits

local id, lease, entry, queues, score, holder, grants, numsub = unpack(ARGV)
local q = newSemaphore(KEYS, grants, numsub, id)
local ended, no = count(q)
if no then return no end
local slot = redis.call('zscore', q.lock, ':' .. id)
if slot then
  local token, err = issue(q.fence, holder, lease)
  if not token then return redis.error_reply(err) end
  prolong(q.lock, id, lease)
  return {token, span(lease), tonumber(slot)}
end
if redis.call('exists', q.queue) == 0 and q.n < limitOf(entry) then
  local token, at = take(q, id, limitOf(entry), lease, holder)
  if not token then return redis.error_reply(at) end
  return {token, span(lease), at}
end
local first = false
if queues == '1' then score, first = arrive(q, q.queue, entry, score) end
local token, at, more = fill(q, ended, entry, lease, holder)
if token then return {token, span(lease, more), at} end
if at then return redis.error_reply(at) end
if queues == '0' and q.n < limitOf(entry) and redis.call('exists', q.queue) == 0 then
  token, at = take(q, id, limitOf(entry), lease, holder)
  if not token then return redis.error_reply(at) end
  return {token, span(lease), at}
end
if queues == '1' then keepAlive(q, entry) end
if first then wantPermits(q) end
return {-1 - waitFor(q), tonumber(score) or 0, 0}
