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
-- fence(key) returns the token and the two arguments of SET that stored it. Callers that have
-- them already pass the last token (false for none) and the reply of TIME.
--
-- Lua formats large numbers as 1.78e+15, hence string.format. A number as an argument of
-- redis.call is slower than a string, hence '60000' and '1'.

local function fence(key, last, t)
  t = t or redis.call('time')
  local ms = t[1] * 1000 + math.floor(t[2] / 1000)
  local now = t[1] * 1024000 + math.floor(t[2] * 1.024)
  if last == nil then last = redis.call('get', key) end
  last = tonumber(last or nil)
  local f
  if not last then
    f = now + 2096
  elseif last % 1024 == 0 then
    f = last + 1024
  elseif last % 16 == 0 then
    f = last + 16
  else
    f = last + 1
  end
  local block = f + -f % 16
  if block % 1024 == 0 then block = block + 16 end
  if last and f <= ms * 1024 then
    f = ms * 1024
  elseif not last or block <= now + 2048 then
    f = block
  elseif f % 16 == 0 then
    f = f + 1
  end
  local px = '60000'
  if f > ms * 1024 then px = tostring(60000 + math.ceil(f / 1024) - ms) end
  local text = string.format('%.0f', f)
  redis.call('set', key, text, 'px', px)
  return f, text, px
end
