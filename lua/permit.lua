--!df flags=allow-undeclared-keys
-- Acquires a permit of a semaphore, with the lowest free slot, if fewer are held than the limit and nobody queues who
-- may have one; or queues. Others that queue get what is free first.
--
--   KEYS   semaphore, fence, queue
--   ARGV   hold id, lease (ms)
--          1 to queue if no permit is granted, 0 not to
--          limit, and behind a space the claim (ms)
--   reply  fencing token, slot; this hold id holds a permit
--          or one number below 0: -1 minus the time (ms) after which to look again
--          NOTLOCK, an error: the key is no semaphore
--
-- Sent twice: the second finds the permit of this id, renews its lease, and issues a greater token, since others may
-- have got one meanwhile; or it finds its place in the queue. But a call that queues is never sent again; see
-- acquire.lua. The token is issued first, so that nothing is acquired if that fails.

-- needs: fence, permits

local q = {lock = KEYS[1], fence = KEYS[2], queue = KEYS[3]}
local id, lease, permits = ARGV[1], ARGV[2], tonumber(string.match(ARGV[4], '%d+'))
local no = count(q)
if no then return no end
local slot = redis.call('zscore', q.lock, ':' .. id)
local function acquire()
  local token, bad = fence(q.fence, lease)
  if not token then return redis.error_reply(bad) end
  if slot then prolong(q.lock, id, lease) else slot = take(q, id, permits, lease) end
  return {token, tonumber(slot)}
end
if slot or redis.call('exists', q.queue) == 0 and q.n < permits then return acquire() end

-- needs: lock, places, fill

local place = placeOf(id, ARGV[4])
q.most = permits
local first = ARGV[3] == '1' and arrive(q.queue, place)
local bad = fill(q, {[place] = true})
if bad then return redis.error_reply(bad) end
slot = redis.call('zscore', q.lock, ':' .. id)
if slot or q.n < permits and not firstPlace(q.queue) then return acquire() end
if first then wantPermit(q) end
return {-1 - waitFor(q)}
