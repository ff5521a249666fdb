-- index has Redis index a long queue. It is called with the score of each new place, and looks at every
-- 64th. Redis keeps a small sorted set as a listpack, which ZADD walks twice: with 128 processes that
-- contend for a lock, a tenth of what an acquisition costs the server. A set that has had a member
-- of more than 64 bytes is indexed from then on (zset-max-listpack-value).

local function index(queue, score)
  if score % 64 ~= 0 or redis.call('zcard', queue) <= 32 then return end
  local long = string.rep('-', 65)
  redis.call('zadd', queue, '0', long)
  redis.call('zrem', queue, long)
end
