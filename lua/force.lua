--!df flags=allow-undeclared-keys
-- Opens a lock whoever holds it, notifies the sessions of its holders, and wakes waiters.
--
--   KEYS   lock, fence, queue
--   ARGV   channel of the lock
--          channel of a read-write lock of this name
--          PUBLISH or SPUBLISH
--          prefix of the session channels
--          name of the lock
--          claim (ms)
--          prefix of the grant channels
--          1 if the server knows all subscribers of such a channel, else 0
--   reply  1 if the lock was held, else 0
--
-- Sent twice: the second finds nothing, or opens a lock acquired in between. The caller
-- sends it again only if the first got no reply.

-- include: fair
-- include: wake

local fields = redis.call('hkeys', KEYS[1])
if #fields == 0 then return 0 end
local mode = redis.call('hget', KEYS[1], 'mode')
redis.call('del', KEYS[1])
for _, field in ipairs(fields) do
  local session, n = string.match(field, '^(.*):(%d+)')
  if session then
    redis.call('publish', ARGV[4] .. session, 'lost ' .. session .. ':' .. n .. ' ' .. ARGV[5])
  end
end
if mode then
  wake(ARGV[3], ARGV[2])
elseif not yield(KEYS[3], ARGV[3], ARGV[8], ARGV[7]) and (redis.call('exists', KEYS[3]) == 0 or
  not dispatch(KEYS[1], KEYS[2], KEYS[3], ARGV[6], ARGV[7], ARGV[3], ARGV[8])) then
  redis.call(ARGV[3], ARGV[1], '0')
end
return 1
