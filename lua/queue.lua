-- The queue of a lock: a sorted set of entries that wait, in order of arrival.
--
-- A member is a hold id, behind a space its grant timeout (ms) if that is not 5000: for so long it
-- gets the lock at first. Of a semaphore it is the hold id, the limit and the grant timeout. The
-- score is the arrival on the server's clock (µs). An entry waits; it has no other state. A waiter
-- whose session is away at its turn is removed, and comes back with its old score, under a new hold
-- id.
--
-- redisson is one entry, for all clients of Redisson that listen on the lock's channel. When it is
-- first, the lock is left free, and a negative score says since when: it is Redisson's turn. That
-- is over once Redisson has had the lock, when nobody listens, or after 100 ms. The next is due 20
-- ms after a turn that was used, 1 s after another: a score in the future. One further away is of a
-- clock that has stepped back: the turn is due now.
--
-- q has the lock, its fence and queue; channel, Redisson's for the lock; grants, what the channel
-- on which a session hears of grants begins with; numsub, the command that counts subscribers,
-- empty where sessions cannot be counted: then all are there (Redisson listens at the node of the
-- lock); session, whose script this is; form of entries and suffix of their hold ids; fields of the
-- lock beside them; lives, how long the queue does without a poll (ms), and lull, how long after
-- the last arrival the next one prolongs that (µs); gone, what is to be removed; and note, that of
-- the call. A read-write lock has a queue of readers as well.

-- isHere returns whether a session listens, and listens how many listen on Redisson's channel.
-- Whether a session is there must be known before a grant is published: PUBLISH also reaches
-- subscribers that it does not count.
local function isHere(q, session)
  if q.numsub == '' then return true end
  if q.here[session] == nil then
    local n = redis.pcall('pubsub', q.numsub, q.channel, q.grants .. session)
    q.listen = n[2] or 1
    q.here[session] = session == q.session or n[4] ~= 0
  end
  return q.here[session]
end
local function listens(q)
  local numsub = q.numsub == '' and 'numsub' or q.numsub
  if not q.listen then q.listen = redis.pcall('pubsub', numsub, q.channel)[2] or 1 end
  return q.listen > 0
end

local turnWithin = 1000000 -- (µs) is Redisson's next turn due at the latest

-- turn returns for how long (ms) it is Redisson's turn, whose entry has that score, and whether it
-- begins only now; nil if it is not. Then q.later says that it is due later.
local function turn(q, score)
  local left = 100000 - score - us -- of one that has begun
  if not listens(q) then
    q.gone[#q.gone + 1] = 'redisson'
  elseif score < 0 and left > 0 and left <= 100000 then
    return math.ceil(left / 1000), false
  elseif score < 0 then
    q.later = true
    redis.call('zadd', q.queue, us + turnWithin, 'redisson')
  elseif score <= us or score > us + turnWithin then
    return 100, true
  else
    q.later = true
  end
  return nil
end

local most = 1000 -- that one script passes, which takes some 10 ms

-- nextOf returns the first entry whose session is there, and whether others wait behind it. If it
-- is Redisson's turn, it returns redisson, for how long (ms), and whether the turn begins only now.
-- It notes which it passes: they are to be removed. some are the first entries with their scores.
local function nextOf(q, some)
  local seen = 0
  while #some > 0 and seen < most do
    for i = 1, #some, 2 do
      local entry, score = some[i], tonumber(some[i + 1])
      if entry == 'redisson' then
        local left, begins = turn(q, score)
        if left then return entry, left, begins end
        if q.later and score < 0 then seen = seen - 1 end -- it has gone to the end
      elseif q.here[sessionOf(entry)] ~= false and score >= 0 and score < math.huge
        and isEntry(q, entry, q.suffix) and isHere(q, sessionOf(entry)) then
        local more = some[i + 2] ~= nil
        if not more and i > 1 then more = redis.call('zcard', q.queue) > seen + (i + 1) / 2 end
        return entry, more
      else
        q.gone[#q.gone + 1] = entry
      end
    end
    seen = seen + #some / 2
    some = redis.call('zrange', q.queue, seen, seen + 99, 'withscores')
  end
end

-- dropSession removes all entries of a session whose lease has run out, of the first 10,000 of each
-- queue, and tells it of 100, if it is there after all: the others find it when they poll. So a
-- frozen host costs one grant timeout, however many of its goroutines wait.
local function dropSession(q, session)
  local hints = {}
  for _, queue in ipairs({q.queue, q.readers}) do
    local removed = {}
    for _, entry in ipairs(redis.call('zrange', queue, 0, 9999)) do
      if sessionOf(entry) == session then
        removed[#removed + 1] = entry
        hints[#hints + 1] = hintOf(entry)
      end
    end
    many('zrem', queue, removed)
  end
  if #hints > 0 then
    tell(q, session, 'poll ' .. table.concat(hints, ' ', 1, math.min(#hints, 100)))
  end
end

-- lapsed is called when a lock is free although others wait. If the fence key names a hold, the
-- lease of that has run out.
local function lapsed(q)
  local _, id = fenceOf(q.fence)
  if not isHold(id) or sessionOf(id) == q.session then return end
  dropSession(q, sessionOf(id))
  forget(q.fence)
end

-- wakeFirst has the first waiter of relock poll.
local function wakeFirst(q, queue)
  for _, entry in ipairs(redis.pcall('zrange', queue, 0, 1)) do
    if entry ~= 'redisson' then return callUp(q, entry) end
  end
end

-- dropPassed removes what was passed, if nobody was granted the lock. If there may be more, the
-- last waiter polls at once: it goes on.
local function dropPassed(q)
  many('zrem', q.queue, q.gone)
  local some = #q.gone >= most and redis.call('zrange', q.queue, -2, -1) or {}
  local last = some[#some] == 'redisson' and some[#some - 1] or some[#some]
  if last then callUp(q, last) end
end

-- mark has Redisson's turn begin. The lock is free though no lease has run out: see lapsed.
local function mark(q)
  redis.call('zadd', q.queue, -us, 'redisson')
  redis.call('pexpire', q.queue, q.lives)
  forget(q.fence)
end

-- wakeRedisson wakes Redisson's waiters with a message: by 0 one of each process, by 1 all that
-- sleep. One that is about to sleep would miss the 1; it finds the second message, which Redisson
-- reads as a 0. It returns how many were told.
local function wakeRedisson(q, message)
  local told = publish(q, q.channel, message)
  if message == '1' and told > 0 then publish(q, q.channel, '00') end
  return told
end

-- leave leaves a free lock to Redisson. The first waiter of relock that is there polls from now on.
local function leave(q, message)
  dropPassed(q)
  mark(q)
  wakeFirst(q, q.queue)
  if q.readers then wakeFirst(q, q.readers) end
  return wakeRedisson(q, message)
end

-- pass gives the lock to the first entry that is there; ends are the hold ids that end with that.
-- asks is an entry whose call learns of a grant by the reply, and has its whole lease then; all
-- others are told. It returns the entry, the token, whether others wait behind it, and 2 or 1 as
-- issue does; redisson, for how long (ms) it is its turn, and whether that begins only now; or nil,
-- and an error if no token can be issued.
local function pass(q, some, ends, asks, lease, holder)
  local entry, more, begins = nextOf(q, some)
  if not entry or entry == 'redisson' then return entry, more, begins end
  if listens(q) then
    local due = tonumber(redis.call('zscore', q.queue, 'redisson') or 0)
    if due == 0 or due > us + turnWithin then redis.call('zadd', q.queue, us, 'redisson') end
    more = true
  end
  if entry ~= asks then
    local token, err = give(q, entry, more, ends)
    if not token then return nil, err end
    return entry, token, more
  end
  local token, again = grant(q, entry, lease, holder, ends, q.note)
  if not token then return nil, again end
  return entry, token, more, again
end
