-- While readers have a read-write lock, its fence key names them instead of a hold id, and behind
-- that until when (ms) it stays taken for those that have left it, by WithMinHold:
--
--   <last token, or 0> readers <time>

-- restsUntil returns that time, 0 if there is none. The key outlives it: else it is no such time.
local function restsUntil(key)
  local text = redis.pcall('get', key)
  local ends = string.match(type(text) == 'string' and text or '', '^%d+ readers ([1-9]%d*)$')
  if not ends or tonumber(ends) > now + redis.call('pttl', key) then return 0 end
  return tonumber(ends)
end

-- setPhase has the key live for ms at least: a token ahead of the clock is remembered for longer.
local function setPhase(key, token, ends, ms)
  local lives = math.max(redis.call('pttl', key), ms)
  redis.call('set', key, string.format('%.0f readers %.0f', token or 0, ends), 'px', lives)
end

-- beginPhase is called when readers get the lock, of which they had nothing.
local function beginPhase(key)
  local token, id, err = fenceOf(key)
  if not err and (id ~= 'readers' or restsUntil(key) > 0) then setPhase(key, token, 0, 60000) end
end

-- stay has the lock stay taken for a while (ms) after all readers have left it.
local function stay(lock, key, ms)
  local token, _, err = fenceOf(key)
  if err then return end
  setPhase(key, token, math.max(restsUntil(key), now + ms), ms + 60000)
  if redis.call('pttl', lock) < tonumber(ms) then redis.call('pexpire', lock, ms) end
end
