--!df flags=allow-undeclared-keys
-- Opens a lock whoever holds it, notifies the sessions of its holders, and wakes waiters. If hold ids are given it
-- does nothing unless all holders are among them.
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

-- needs: fence, lock, readers, places, turns, grant, phases

local no = foreign(KEYS[1])
if no then return no end
local fields = redis.call('hkeys', KEYS[1])
if #fields == 0 then return 0 end
local holds, named = {}, {}
for i = 4, #ARGV do named[ARGV[i]] = true end
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
for _, field in ipairs(holds) do
  local id = string.match(field, '^[^:]+:%-?%d+')
  redis.pcall('publish', ARGV[1] .. string.sub(id, 1, 36), 'lost ' .. id .. ' ' .. ARGV[2])
end
local q = {lock = KEYS[1], fence = KEYS[2], queue = mode and KEYS[4] or KEYS[3], prefix = mode and ARGV[3] or nil}
local first = firstOf(q.queue, redis.pcall)
if not bare or first.err or not passOn(q, {}, true, nil, first) then notify(q.queue, mode and '1' or '0') end
return 1
