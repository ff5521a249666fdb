--!df flags=allow-undeclared-keys
-- Acquires the write side. It removes readers whose own leases have ended although others
-- keep the lock alive. The names of their rwlock_timeout keys are derived here, because only
-- the lock knows its readers.
--
--   KEYS   lock, fence, intents
--   ARGV   field of the hold, lease (ms)
--          prefix of the rwlock_timeout keys
--          validity of the intent (ms), or 0 for a call that does not wait
--   reply  as acquire.lua
--
-- Sent twice: as acquire.lua. The token is issued before the lock is acquired here as well.

-- include: fence
-- include: intents
-- include: leases
-- include: list

local mode = redis.pcall('hget', KEYS[1], 'mode')
if mode == 'write' and redis.call('hexists', KEYS[1], ARGV[1]) == 1 then
  prolong(KEYS[1], ARGV[2])
  return tonumber(redis.call('get', KEYS[2])) or fence(KEYS[2])
end
local free = not mode and redis.call('exists', KEYS[1]) == 0
local list = listOf(ARGV[3])
if not free and not (mode == 'read' and living(KEYS[1], list)) then
  -- include: foreign
  local no = foreign(KEYS[1], mode)
  if no then return no end
  local longest, others, keyless, bare = 0, 0, {}, true
  if mode == 'read' then longest, others, keyless, bare = leases(KEYS[1], ARGV[3]) end
  if #keyless > 0 and others == 0 and kept(KEYS[3]) == 0 then
    for n = 1, #keyless, 1000 do
      local to = math.min(n + 999, #keyless)
      redis.call('hdel', KEYS[1], unpack(keyless, n, to))
      redis.pcall('zrem', list, unpack(keyless, n, to))
    end
    free = longest == 0 and bare
    if free then redis.call('del', KEYS[1]) end
  end
end
local wait
if free then
  local mine = 'w:' .. ARGV[1]
  local _, readers, turn, any = intents(KEYS[3], mine)
  if readers == 0 or turn == 0 then
    local token = fence(KEYS[2])
    if any then redis.call('hdel', KEYS[3], mine, 'turn', 'others') end
    redis.call('hset', KEYS[1], 'mode', 'write', ARGV[1], 1)
    redis.call('pexpire', KEYS[1], ARGV[2])
    return token
  end
  wait = turn
end
if ARGV[4] ~= '0' then intend(KEYS[3], 'w:' .. ARGV[1], tonumber(ARGV[4])) end
return -1 - (wait or redis.call('pttl', KEYS[1]))
