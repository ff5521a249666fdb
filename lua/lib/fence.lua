-- Fencing tokens. They run by the server's clock, 1024 to the millisecond, so that they keep growing even if Redis
-- loses all data. An acquisition gets the block of its millisecond: 1024 tokens, for each owner that its process
-- passes the lock to. The first token of a block is a multiple of 1024. If the clock is not beyond the last token,
-- the acquisition gets the next number alone.
--
-- If there is no last token, all data may just have been lost. Then the number is 2 ms ahead, further than any token
-- was before: blocks and next numbers are 1 ms ahead at most, and no server runs a script in the 2 µs that two
-- numbers take. The key expires a minute after the clock has passed the token, a second after the lease if that is
-- longer, and not while a hold is renewed. It is needed if the clock steps back, and for those who inspect the lock.
--
--   clock      returns the time of the server (ms), as of the start of the script
--   lastToken  returns the last token of a lock, or nil: somebody may have written anything there
--   memory     returns how long the token of a hold with a lease is kept (ms)
--   fence      issues a token for a hold with a lease (ms). It returns it, also as text, or nil and an error
--
-- Lua formats large numbers as 1.78e+15, hence string.format.

local time = redis.call('time')
local function clock() return time[1] * 1000 + math.floor(time[2] / 1000) end

local function tokenIn(value)
  local n = tonumber(value or nil)
  return n and n > 0 and n < 9007199254740992 and n % 1 == 0 and n or nil
end

local function lastToken(key) return tokenIn(redis.pcall('get', key)) end

local function memory(lease) return math.max(60000, (tonumber(lease) or 0) + 1000) end

local function fence(key, lease)
  local ms = clock()
  local token = ms * 1024
  local text = string.format('%.0f', token)
  local kept = memory(lease)
  local last = redis.pcall('set', key, text, 'px', kept, 'get')
  if type(last) == 'table' then return nil, last.err end
  last = tokenIn(last)
  if last and last < token then return token, text end
  if last then
    token = last + (last % 1024 == 0 and 1024 or 1)
  else
    token = time[1] * 1024000 + math.floor(time[2] * 1.024) + 2064
  end
  if token % 1024 == 0 then token = token + 1 end
  text = string.format('%.0f', token)
  redis.call('set', key, text, 'px', kept + math.max(math.ceil(token / 1024) - ms, 0))
  return token, text
end
