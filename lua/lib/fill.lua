-- fill gives permits of a semaphore to those that queue for it, while the first of them may have one: a place has its
-- limit before the claim. It tells the winners, but for those of asks, as grant.lua does, and stops after 100, of
-- which the next one is told. q.most is the largest limit of those who ask now, if somebody does: the first keeps them
-- from a permit only while its session is there and not silent. It returns an error if the queue cannot be read, or no
-- token be issued. limitOf returns the limit in a place, 0 for that of another kind of lock. wantPermit tells the
-- sessions of holders that somebody waits.

local function limitOf(place) return tonumber(string.match(place, '^%S+ (%d+) %d+$') or 0) end

local function fill(q, asks)
  if q.lapsed then passSilent(q.queue) end
  for given = 0, 100 do
    local first = firstOf(q.queue, redis.pcall)
    if first.err then return first.err end
    local full = first[1] and q.n >= limitOf(first[1])
    if not first[1] or full and q.n >= (q.most or 0) then return nil end
    local place, more = nextPlace(q.queue, asks, first, full and silent(q.queue))
    if not place or q.n >= limitOf(place) then return nil end
    local id, claim, channel, token, text = idOf(place), claimOf(place), channelOf(q.queue, place), nil, nil
    if given < 100 then token, text = fence(q.fence, claim) end
    if not token then
      redis.call(publish, channel, 'look ' .. id)
      return text
    end
    redis.call('zrem', q.queue, place)
    local slot = take(q, id, limitOf(place), claim)
    if not (asks and asks[place]) then
      text = text .. '/' .. slot .. (more and ' +' or ' ') .. claim
      redis.call(publish, channel, 'granted ' .. id .. ' ' .. text .. ' ' .. q.lock)
    end
  end
end

local function wantPermit(q)
  local told = {}
  for _, id in ipairs(redis.call('zrange', q.lock, q.n + 1, q.n + 100)) do
    if not told[sessionOf(id)] then want(q.lock, id) end
    told[sessionOf(id)] = true
  end
end
