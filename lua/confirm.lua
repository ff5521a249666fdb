-- Asks whether more readers of a process may join its read hold.
--
--   KEYS   lock, intents
--   ARGV   hold id
--          hold id of the reader that wants to join
--          validity of its intent (ms), or 0 for a call that does not wait
--   reply    1  they may join
--            2  the waiting ones may join, but a writer waits
--            3  the hold is gone
--          < 0  -1 minus the time to wait (ms)
--
-- Sent twice: it changes nothing but the intent, whose validity starts again.

-- include: entered

local held = redis.pcall('hexists', KEYS[1], ARGV[1])
if held ~= 1 then
  -- include: wrongtype
  return (held == 0 or wrongType(held)) and 3 or held
end
local mine = 'r:' .. ARGV[2]
local writers, readers, turn, any = intents(KEYS[2], mine)
local open = redis.call('hget', KEYS[1], 'mode') == 'read'
if open and (writers == 0 or turn > 0) then
  if any then entered(KEYS[2], mine, readers, turn) end
  return writers > 0 and 2 or 1
end
if ARGV[3] ~= '0' then intend(KEYS[2], mine, tonumber(ARGV[3])) end
if open then return -1 - writers end
return -1 - redis.call('pttl', KEYS[1])
