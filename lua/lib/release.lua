-- release ends a hold of a lock that others may wait for: it grants the lock to the first of the
-- queue, or leaves it free. Without a hold, it ends the place of that id. again is the place of the
-- next goroutine of a process that has had its turn, which is queued in the same step; nil if there
-- is none. alone as for yields. It returns what release.lua replies.
--
-- What is ours ends first, whatever the keys beside the lock hold: an error of those is replied
-- as DAMAGED, when the lock is free.

-- include: queue
-- include: yield

local function release(lock, fencekey, queue, id, claim, again, alone)
  local held = redis.pcall('hexists', lock, id)
  local first = firstOf(queue, redis.pcall)
  if held ~= 1 then
    -- include: wrongtype
    if held ~= 0 and not wrongType(held) then return held end
    local place = placeOf(id, claim)
    if redis.pcall('zrem', queue, place) ~= 1 then return -1 end
    if first[1] == place then look(queue) end
    return 0
  end
  local bad = first.err
  if not bad then
    if again then
      arrive(queue, again)
      if not first[1] then first = firstOf(queue) end
    end
    if not yields(queue, first[1], alone and first[1]) then
      local winner, token, won = grant(lock, fencekey, queue, again and {[again] = true}, id, first)
      if winner then return won == again and token or 0 end
      bad = token
    end
  end
  redis.call('hdel', lock, id)
  local told = leave(queue, '0')
  return bad and redis.error_reply('DAMAGED ' .. bad) or told
end
