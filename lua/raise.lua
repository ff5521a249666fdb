-- Raises the last fencing token of a lock to the one of a Redlock, which another deployment may
-- have issued, where the Redlock has its hold. Elsewhere somebody may be acquiring the lock
-- already, with a smaller token.
--
--   KEYS   lock, fence
--   ARGV   hold id, token, lease (ms)
--   reply  1: the next token here is larger than those of the hold
--          0: the hold is not there; nothing was changed
--
-- Sent twice: the second finds that token, as long as it finds the hold.
--
-- The token may be far ahead of this server's clock, or far behind it. The key lives a minute
-- longer than the lease once the clock has passed the token.

-- needs: token

if redis.pcall('hget', KEYS[1], ARGV[1]) ~= '1' then return 0 end
local last, id, err = fenceOf(KEYS[2])
if err then return redis.error_reply(err) end
local token = tonumber(ARGV[2])
last = last or 0
-- A token that was issued here too late to be chosen may be among those of the hold's block.
if token % 1024 == 0 and last > token then token = token + 1023 end
token = math.max(token, last)
local lives = ARGV[3] + 60000 + math.max(math.ceil(token / 1024) - now, 0)
local note = string.match(redis.call('get', KEYS[2]) or '', '^%d+ %S+( .*)$') or ''
redis.call('set', KEYS[2], string.format('%.0f %s%s', token, id, note), 'px', lives)
return 1
