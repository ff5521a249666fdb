--!df flags=allow-undeclared-keys
-- Opens a lock whoever holds it, notifies the sessions of its holders, and wakes waiters.
--
--   KEYS   lock, fence, queue, queue of a read-write lock
--   ARGV   channel of the lock
--          channel of a read-write lock of this name
--          prefix of the session channels
--          name of the lock
--          claim (ms)
--          prefix of the rwlock_timeout keys
--   reply  1 if the lock was held, else 0; NOTLOCK, an error, if the key is no lock
--
-- Sent twice: the second finds nothing, or opens a lock acquired in between. The caller
-- sends it again only if the first got no reply.

-- It deletes only what is the lock's. If an application has added fields to it, these stay,
-- and the lock is granted to nobody.

-- include: queue
-- include: yield
-- include: foreign
-- include: strip

local no = foreign(KEYS[1])
if no then return no end
local fields = redis.call('hkeys', KEYS[1])
if #fields == 0 then return 0 end
local holds = {}
for _, field in ipairs(fields) do
  if isHold(field) then holds[#holds + 1] = field end
end
if #holds == 0 then return redis.error_reply('NOTLOCK hash') end
local mode = redis.call('hget', KEYS[1], 'mode')
local bare = #fields == #holds + (mode and 1 or 0)
strip(KEYS[1], holds, bare)
for _, field in ipairs(holds) do
  local id = string.match(field, '^[^:]+:%-?%d+')
  redis.call('publish', ARGV[3] .. string.sub(id, 1, 36), 'lost ' .. id .. ' ' .. ARGV[4])
end
if mode then
  -- include: phases
  local q = {lock = KEYS[1], fence = KEYS[2], queue = KEYS[4], channel = ARGV[2], claim = ARGV[5], prefix = ARGV[6]}
  if not bare or not handOver(q, {}, true) then wakeTheirs(q, '1') end
elseif not bare then
  redis.call(publish, ARGV[1], '0')
elseif yield(KEYS[3], ARGV[1], 0) or
  not grant(KEYS[1], KEYS[2], KEYS[3], ARGV[5]) then
  leave(KEYS[3], ARGV[1])
end
return 1
