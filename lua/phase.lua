-- While readers have a read-write lock, its fence key names them instead of a hold id, and behind
-- that until when (ms) it stays taken for those that have left it, by WithMinHold:
--
--   <last token, or 0> readers <time>

-- restsUntil returns that time, 0 if there is none.
local function restsUntil(key)
  local text = redis.pcall('get', key)
  return tonumber(string.match(type(text) == 'string' and text or '', '^%d+ readers (%d+)$') or 0)
end

local function setPhase(key, token, ends, lives)
  redis.call('set', key, string.format('%.0f readers %.0f', token or 0, ends), 'px', lives)
end

-- beginPhase is called when readers get the lock, of which they had nothing.
local function beginPhase(key)
  local token, id, err = fenceOf(key)
  if not err and id ~= 'readers' then setPhase(key, token, 0, 60000) end
end

-- stay has the lock stay taken for a while (ms) after all readers have left it.
local function stay(lock, key, ms)
  local token, _, err = fenceOf(key)
  if err then return end
  local lives = math.max(redis.call('pttl', key), ms) + 60000
  setPhase(key, token, math.max(restsUntil(key), now + ms), lives)
  if redis.call('pttl', lock) < tonumber(ms) then redis.call('pexpire', lock, ms) end
end
