-- release ends a hold of a lock that others may wait for: it grants the lock to the first of the
-- queue, or leaves it free. Without a hold, it ends the place of that id. idle is how many subscribers of
-- the lock's channel listen for nobody. again is an id that is
-- queued in the same step, false for none: the next goroutine of a process that has had its turn.
-- It returns what release.lua replies.

-- include: queue
-- include: yield

local function release(lock, fencekey, queue, id, channel, claim, idle, again)
  local held = redis.pcall('hexists', lock, id)
  if held ~= 1 then
    -- include: wrongtype
    if held ~= 0 and not wrongType(held) then return held end
    local first = redis.call('zrange', queue, 0, 0)[1]
    if redis.call('zrem', queue, id) == 0 then return -1 end
    if first == id then look(queue) end
    return 0
  end
  if again then enqueue(queue, again) end
  if not yield(queue, channel, idle) then
    local winner, token = grant(lock, fencekey, queue, claim, again and {[again] = true}, id)
    if winner then return winner == again and token or 0 end
  end
  redis.call('hdel', lock, id)
  return leave(queue, channel)
end
