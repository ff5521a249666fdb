--!df flags=allow-undeclared-keys
-- Acquires the read side for a process. lib/intents.lua describes the keys.
--
--   KEYS   lock, intents, rwlock_timeout key of the hold
--   ARGV   hold id, lease (ms)
--          field of the write hold of the same owner, or the empty string
--          validity of the intent (ms), or 0 for a call that does not wait
--          prefix of the rwlock_timeout keys
--   reply    1  held, and more readers of this process may join
--            2  held, but a writer waits
--            0  not held; the holder has no expiry
--          < 0  not held; -1 minus the time to wait (ms)
--          NOTLOCK, an error: the key is no lock (lib/foreign.lua)
--
-- Sent twice: the second finds the hold, and its lease starts again.

-- include: entered
-- include: leases
-- include: list

local mode = redis.pcall('hget', KEYS[1], 'mode')
if type(mode) == 'table' then
  -- include: wrongtype
  return wrongType(mode) and redis.error_reply('NOTLOCK type') or mode
end
local mine = 'r:' .. ARGV[1]
local writers, readers, turn, any = intents(KEYS[2], mine)
local stopped = writers > 0 and turn == 0
local open = mode == 'read' or not mode and redis.call('exists', KEYS[1]) == 0
if open and not stopped or mode and (redis.call('hexists', KEYS[1], ARGV[1]) == 1
  or ARGV[3] ~= '' and redis.call('hexists', KEYS[1], ARGV[3]) == 1) then
  local list, now, ttl = listOf(ARGV[5]), clock(), -2
  local valid, explained
  if mode then
    ttl = redis.call('pttl', KEYS[1])
    valid, explained = explains(KEYS[1], list, now, ttl)
    if not valid then
      -- include: foreign
      local no = foreign(KEYS[1])
      if no then return no end
    end
    if mode == 'read' and not explained then keep(KEYS[1], KEYS[2], ARGV[5]) end
    redis.call('hset', KEYS[1], ARGV[1], 1)
  else
    redis.call('hset', KEYS[1], 'mode', 'read', ARGV[1], 1)
  end
  redis.call('set', KEYS[3], 1, 'px', ARGV[2])
  if explained then
    prolong(KEYS[1], ARGV[2], ttl)
  else
    startLease(KEYS[1], KEYS[3], ARGV[2], ttl)
  end
  if not valid then redis.pcall('del', list) end
  enlist(list, ARGV[1], now, ARGV[2], not valid or now % 8 == 0)
  if any then entered(KEYS[2], mine, readers, turn) end
  return writers > 0 and 2 or 1
end
do -- not at the top, where it would cost time that a free lock need not take
  -- include: foreign
  local no = foreign(KEYS[1])
  if no then return no end
end
if ARGV[4] ~= '0' then intend(KEYS[2], mine, tonumber(ARGV[4])) end
if open then return -1 - writers end
return -1 - redis.call('pttl', KEYS[1])
