-- The queue of a lock: a sorted set of hold ids in order of arrival, each the place of one
-- contender. An id is queued once and never again.
--
-- enqueue adds a place. grant gives the lock to the first contender that is there, and returns
-- its hold id and token, or nothing if there is none. The winner gets the lock for a claim, a
-- short lease, and is told, unless it is one of asks, whose call learns it by the reply. leaving
-- is the hold that ends with that.

-- include: give
-- include: index

local function enqueue(queue, id)
  local last = redis.call('zrange', queue, -1, -1, 'withscores')[2]
  if last then
    last = last + 1
  else
    local t = redis.call('time')
    last = t[1] * 1000000 + t[2]
  end
  redis.call('zadd', queue, 'nx', string.format('%.0f', last), id)
  redis.call('pexpire', queue, '15000')
  index(queue, last)
end

local function grant(lock, fencekey, queue, claim, asks, leaving)
  local id = nextThere(queue, asks)
  if not id then return nil end
  return id, give(lock, fencekey, queue, claim, id, asks and asks[id], leaving)
end
