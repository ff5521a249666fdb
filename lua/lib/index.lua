-- index makes Redis index a long queue, one in 64 times that a place is added with that score. As long
-- as a sorted set is small, Redis keeps it in a row, and ZADD walks it twice: with 128 processes that
-- contend for a lock, a tenth of what an acquisition costs the server. A set that has had a member
-- of more than 64 bytes is indexed from then on (zset-max-listpack-value).

local function index(queue, score)
  if score % 64 ~= 0 or redis.call('zcard', queue) <= 32 then return end
  local long = string.rep('-', 65)
  redis.call('zadd', queue, '0', long)
  redis.call('zrem', queue, long)
end
