-- redissons returns whether a hold id is of Redisson, whose clients have UUIDs of version 4;
-- relock's sessions have version 8. came notes that Redisson has taken the lock that was left to
-- it; see lib/yield.lua.

-- include: beside
-- include: clock

local function redissons(holder) return holder and string.sub(holder, 15, 15) == '4' end
local function came(queue)
  local key = beside(queue, 'relock_yield')
  local text = redis.pcall('get', key)
  local left = type(text) == 'string' and string.match(text, '^%d+ [^*%-][^ ]*')
  if left then
    redis.pcall('set', key, string.format('%s %.0f', left, clock()), 'px', '200')
  else
    redis.pcall('del', key)
  end
end
