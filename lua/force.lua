--!df flags=allow-undeclared-keys
-- Opens a lock whoever holds it, notifies the sessions of its holders, and wakes waiters. If hold ids are given it
-- does nothing unless all holders are among them; of a semaphore it ends the permits of those.
--
--   KEYS   lock, fence, queue, queue of a read-write lock
--   ARGV   prefix of the session channels
--          name of the lock
--          prefix of the rwlock_timeout keys
--          hold ids …, without :write; none: whoever holds it
--   reply  1 if the lock was held, else 0; -1 if somebody else holds it; NOTLOCK, an error, if the key is no lock
--
-- Sent twice: the second finds nothing, or without hold ids opens a lock acquired in between. The caller sends it
-- again only if the first got no reply.

-- It deletes only what is the lock's. If an application has added fields to it, these stay, and the lock is granted
-- to nobody. What is opened stays open: if a damaged key keeps it from being handed over, the first of those who wait
-- looks, and learns of that.

-- needs: fence, lock, readers, places, turns, grant, phases, permits, fill

local holds, named = {}, {}
for i = 4, #ARGV do named[ARGV[i]] = true end
local function tell(id)
  redis.pcall('publish', ARGV[1] .. string.sub(id, 1, 36), 'lost ' .. id .. ' ' .. ARGV[2])
end
if type(redis.pcall('zscore', KEYS[1], 'permits')) == 'string' then
  local s = {lock = KEYS[1], fence = KEYS[2], queue = KEYS[3]}
  local no = count(s)
  if no then return no end
  for _, id in ipairs(redis.call('zrange', s.lock, s.n + 1, -1)) do
    if named[id] or not ARGV[4] then
      holds[#holds + 1], holds[#holds + 2] = id, ':' .. id
      tell(id)
    end
  end
  many('zrem', s.lock, holds)
  s.n = s.n - #holds / 2
  fill(s)
  if s.n == 0 then redis.call('del', s.lock) end
  return #holds > 0 and 1 or 0
end
local no = foreign(KEYS[1])
if no then return no end
local fields = redis.call('hkeys', KEYS[1])
if #fields == 0 then return 0 end
for _, field in ipairs(fields) do
  if isHold(field) then
    holds[#holds + 1] = field
    if ARGV[4] and not named[string.match(field, '^[^:]+:[^:]+')] then return -1 end
  end
end
if #holds == 0 then return redis.error_reply('NOTLOCK hash') end
local mode = redis.call('hget', KEYS[1], 'mode')
local bare = #fields == #holds + (mode and 1 or 0)
strip(KEYS[1], holds, bare)
for _, field in ipairs(holds) do tell(string.match(field, '^[^:]+:%-?%d+')) end
local q = {lock = KEYS[1], fence = KEYS[2], queue = mode and KEYS[4] or KEYS[3], prefix = mode and ARGV[3] or nil}
local first = firstOf(q.queue, redis.pcall)
if not bare or first.err or not passOn(q, {}, true, nil, first) then notify(q.queue, mode and '1' or '0') end
return 1
