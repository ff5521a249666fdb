-- The time and fencing tokens: all that it takes to acquire a lock that is free.

local time = redis.call('time')
local us = time[1] * 1000000 + time[2] -- the time of the server, as of the start of the script
local now = math.floor(us / 1000) -- ms

local largest = 2^53 - 2^30 -- of the tokens to be followed by others, which are exact numbers too

local function sessionOf(id) return string.match(id, '^[^:]*') end

-- The fence key of a lock has the last token, the hold id that it was issued to (- if its lease
-- ends by itself), and the note of the hold, if it has one: who has it and why, for people. fenceOf
-- returns the token and the hold id; nil and - if there are none, and why.
local function fenceOf(key)
  local text = redis.pcall('get', key)
  local token, id = string.match(type(text) == 'string' and text or '', '^(%d+) ?(%S*)')
  token = tonumber(token)
  if not token or token < 1 or token > largest then
    return nil, id == 'readers' and id or '-', type(text) == 'table' and text.err
  end
  return token, id
end

-- issue issues the next token of a lock to a hold id, or to -. Tokens run by the server's clock,
-- 1024 to the millisecond, so that they keep growing even if Redis loses all data. An acquisition
-- gets the block of its millisecond, whose first token is a multiple of 1024: one for each owner
-- that its process passes the lock to. If the clock is not beyond the last token, it gets the next
-- number alone. If there is no last token, all data may just have been lost. Then the number is 2
-- ms ahead, further than any token was before: blocks and next numbers are 1 ms ahead at most, and
-- no server runs a script in the 2 µs that two numbers take. The key lives a minute longer than the
-- lease. The note of the hold is empty, or begins with a space.
--
-- It returns the token, and 2 if the session had the lock before as well, or nobody had it lately,
-- else 1; or nil and an error. Lua writes large numbers as 1.78e+15, hence %.0f.
local function issue(key, id, lease, note)
  local token, lives, form = now * 1024, lease + 60000, '%.0f %s%s'
  note = note or ''
  local was = redis.pcall('set', key, form:format(token, id, note), 'px', lives, 'get')
  if type(was) == 'table' then return nil, was.err end
  local last, holder = string.match(was or '', '^(%d+) ?(%S*)')
  last = tonumber(last)
  if not last or last < 1 or last > largest then
    token, last = time[1] * 1024000 + math.floor(time[2] * 1.024) + 2064, nil
    if token % 1024 == 0 then token = token + 1 end
  elseif last >= token then
    token = last + (last % 1024 == 0 and 1024 or 1)
    if token % 1024 == 0 then token = token + 1 end
  end
  if token > now * 1024 then
    lives = lives + math.max(math.ceil(token / 1024) - now, 0)
    redis.call('set', key, form:format(token, id, note), 'px', lives)
  end
  local again = not last or id ~= '-' and sessionOf(holder) == sessionOf(id)
  return token, again and 2 or 1
end

-- span returns the second number of a reply to a holder.
local function span(ms, more) return more and -ms or tonumber(ms) end
