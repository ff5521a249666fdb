-- The two sides of a read-write lock. It is Redisson's: a hash with the field mode, one field for
-- each reader, and <id>:write for the writer. Each hold of a reader has a key
-- <prefix><id>:rwlock_timeout:1, which expires with its lease. The hash expires with the longest
-- lease of its holders; nothing shortens that.
--
-- Writers and readers have a queue each. Those readers that queue when a writer leaves are let in
-- together; new readers queue while a writer does. q is as in queue.lua, for the queue of writers;
-- readers is the other queue.

-- modeOf returns the mode of the lock, whether it is free, and an error if the key has another
-- type.
local function modeOf(lock)
  local mode = redis.pcall('hget', lock, 'mode')
  local no = notLock(mode)
  if no or mode then return mode, false, no end
  return nil, redis.call('exists', lock) == 0
end

-- enter lets in readers, each for its lease: the keys of their leases come first. ends are hold ids
-- that end with that.
local function enter(q, mode, ids, leases, ends)
  local set, longest = {'mode', 'read'}, 0
  if mode and #ends == 0 then longest = redis.call('pttl', q.lock) end -- others have it as well
  if mode == 'write' and #ends == 0 then set = {} end -- their owner writes
  for i, id in ipairs(ids) do
    redis.call('set', q.prefix .. id .. ':rwlock_timeout:1', '1', 'px', leases[i])
    set[#set + 1], set[#set + 2] = id, '1'
    if longest >= 0 then longest = math.max(longest, tonumber(leases[i])) end
  end
  redis.call('hset', q.lock, unpack(set))
  if #ends > 0 then redis.call('hdel', q.lock, unpack(ends)) end
  if longest >= 0 then redis.call('pexpire', q.lock, longest) end
end

-- admit lets in the readers that queue, 1000 at most, and returns whether there were any. asks is
-- an entry whose call learns of that by the reply, and has that lease then; all others are told,
-- and whether a writer waits.
local function admit(q, mode, ends, asks, lease)
  local ids, leases, told, seen = {}, {}, {}, 0
  repeat
    local entries = redis.call('zrange', q.readers, 0, 999)
    for _, entry in ipairs(entries) do
      if isEntry(q, entry, '') and isHere(q, sessionOf(entry)) then
        ids[#ids + 1], leases[#leases + 1] = idOf(entry), entry == asks and lease or grantOf(entry)
        if entry ~= asks then told[#told + 1] = entry end
      end
    end
    if #ids > 0 then
      if mode ~= 'read' then beginPhase(q.fence) end
      enter(q, mode, ids, leases, ends)
    end
    many('zrem', q.readers, entries)
    seen = seen + 1
  until #ids > 0 or #entries == 0 or seen == 10
  local writer = #ids > 0 and redis.call('exists', q.queue) + 1
  for _, entry in ipairs(told) do
    local text = string.format('granted %s %d %d ', idOf(entry), writer, grantOf(entry))
    tell(q, sessionOf(entry), text .. q.lock)
  end
  return #ids > 0, writer
end

-- blocked returns whether new readers queue, since a writer does, or since Redisson listens, whose
-- waiter may be one. Writers that are not there are passed; if it returns nil, they are to be
-- removed, of more than one script passes it removes what it has passed.
local function blocked(q)
  local some = redis.call('zrange', q.queue, 0, 1, 'withscores')
  local first = nextOf(q, some)
  if not first and #q.gone >= most then -- there may be one behind them
    dropPassed(q)
    return true
  end
  if not first and listens(q) and #some == 0 then
    redis.call('zadd', q.queue, us, 'redisson')
    redis.call('pexpire', q.queue, q.lives)
    first = 'redisson'
  end
  return first
end

-- passOn gives a lock that is free, or whose holds end, to the readers that queue if they come
-- first, else to the next writer, else to readers. asks is as for admit and pass. It returns as
-- pass does, and true if it has let readers in.
local function passOn(q, mode, ends, readersFirst, asks, lease, holder)
  if readersFirst and admit(q, mode, ends, asks, lease) then return true end
  local some = redis.call('zrange', q.queue, 0, 1, 'withscores')
  local winner, n, more, again = pass(q, some, ends, asks, lease, holder)
  if not winner then
    dropPassed(q)
    if not n and not readersFirst and admit(q, mode, ends, asks, lease) then return true end
  end
  return winner, n, more, again
end

-- passFree gives a lock that is free although others wait to the next, as passOn does: the lease of
-- its last holders has run out, or it is Redisson's turn. Readers come first unless they had it.
local function passFree(q, asks, lease, holder)
  local some = redis.call('zrange', q.queue, 0, 0, 'withscores')
  local theirs = some[1] == 'redisson' and tonumber(some[2]) < 0
  local readersFirst = not theirs and select(2, fenceOf(q.fence)) ~= 'readers'
  lapsed(q)
  return passOn(q, nil, {}, readersFirst, asks, lease, holder)
end
