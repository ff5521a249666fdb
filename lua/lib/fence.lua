-- fence issues fencing tokens on the server's clock, for every script that acquires.
--
-- There are 1024 tokens to the millisecond: as long as they do not run ahead of the clock,
-- they keep growing even if Redis loses all data. An acquisition gets a block of tokens, one
-- for each owner that its process passes the lock to. The first token of a block tells the
-- length of the block:
--
--   1024  if it is a multiple of 1024: the clock has passed the last block
--     16  if it is another multiple of 16: less than 2 ms ahead of the clock
--      1  otherwise
--
-- If blocks of 16 follow each other faster than the clock (more than 64 acquisitions a
-- millisecond), the lead over the clock grows to 2 ms. From there blocks are of 1: they cost
-- 2 tokens at most, and no server runs a script in the 2 µs of two tokens. If no last token
-- is stored, all data may just have been lost, and the next token starts a little more than
-- 2 ms ahead. The key expires a minute after the clock has passed the token: the clock makes
-- tokens grow, and the key is only needed if the clock steps back.
--
-- tokenIn returns the token that a value is, nil if it is none: somebody may have written anything there.
-- lastToken returns the last token of a lock.
--
-- fence(key) returns the token and the two arguments of SET that stored it. Callers that have
-- them already pass the last token (false for none) and the reply of TIME. For others, SET stores
-- a block of 1024 at once and returns the last token: mostly the clock has passed its block. If the
-- key has another type, fence returns nil and the error.
--
-- Lua formats large numbers as 1.78e+15, hence string.format; redis.call writes them out. A
-- constant is faster as a string, hence '60000' and '1'.

local function tokenIn(value)
  local n = tonumber(value or nil)
  return n and n > 0 and n < 9007199254740992 and n % 1 == 0 and n or nil
end

local function lastToken(key) return tokenIn(redis.pcall('get', key)) end

local function fence(key, last, t)
  t = t or redis.call('time')
  local ms = t[1] * 1000 + math.floor(t[2] / 1000)
  local f, px = ms * 1024, '60000'
  local text = string.format('%.0f', f)
  local stored = last == nil
  if stored then last = redis.pcall('set', key, text, 'px', px, 'get') end
  if type(last) == 'table' then return nil, last.err end
  last = tokenIn(last)
  local after
  if last then after = last + (last % 1024 == 0 and 1024 or last % 16 == 0 and 16 or 1) end
  if not last or after > f then
    local now = t[1] * 1024000 + math.floor(t[2] * 1.024)
    if not last then after = now + 2096 end
    f = after + -after % 16
    if f % 1024 == 0 then f = f + 16 end
    if last and f > now + 2048 then f = after % 16 == 0 and after + 1 or after end
    text = string.format('%.0f', f)
    if f > ms * 1024 then px = tostring(60000 + math.ceil(f / 1024) - ms) end
    stored = false
  end
  if not stored then redis.call('set', key, text, 'px', px) end
  return f, text, px
end
