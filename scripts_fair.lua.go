package relock

// The scripts of FairMutex. The lock is the hash of every other exclusive lock. The
// queue is a sorted set of hold ids in order of arrival.

// fairLua has what the scripts share. dispatch gives a free lock to the first waiter
// whose session hears of it, and returns its id and token, or nothing if nobody was
// there. The winner has it under a claim, a short lease which it renews at once.
// A session that is not there has lost its connection: its waiters lose their place.
// Where the server does not know all subscribers, the first waiter gets the lock.
//
// Whether a session is there has to be known before anything is published to it. The
// reply of PUBLISH would come too late: a subscriber that a failover has left on what is
// a replica now is not counted, but hears the message, and would believe it.
//
// A fair hold is not passed on within a process, so it takes a block of one token only.
// leaveScript has that and dispatch in its own way.
//
// The session's channel is derived here, because only the queue tells who is next.
const fairLua = fenceLua + yieldLua + thereLua + `
local function one(fencekey)
  fence(fencekey)
  return redis.call('incr', fencekey)
end
local function enqueue(queue, id, valid)
  if not redis.call('zscore', queue, id) then
    local t = redis.call('time')
    local score = t[1] * 1000000 + t[2]
    local last = redis.call('zrange', queue, -1, -1, 'withscores')
    if last[2] then score = math.max(score, tonumber(last[2]) + 1) end
    redis.call('zadd', queue, string.format('%.0f', score), id)
  end
  redis.call('pexpire', queue, valid)
end
local function yielded(queue)
  local key = 'relock_yield' .. string.sub(queue, 13)
  local head = redis.pcall('get', key)
  if type(head) ~= 'string' or head ~= theirs(queue) then return 0 end
  return redis.call('pttl', key)
end
local function left(lock)
  local ttl = redis.call('pttl', lock)
  local holder = redis.call('hkeys', lock)[1] or ''
  if string.sub(holder, 15, 15) == '4' and (ttl < 0 or ttl > 20) then return 20 end
  return ttl
end
local function dispatch(lock, fencekey, queue, claim, grant, publish, counted)
  while true do
    local id = redis.call('zpopmin', queue)[1]
    if not id then return nil end
    local channel = grant .. (string.match(id, '^(.*):') or '')
    if there(channel, publish, counted) then
      local token = one(fencekey)
      redis.call(publish, channel, id .. string.format(' %.0f ', token) .. claim)
      redis.call('hset', lock, id, 1)
      redis.call('pexpire', lock, claim)
      return id, token
    end
  end
end
`

// yieldLua: a waiter of Redisson's RFairLock hears of a release only on a channel of its own, and
// only the head of Redisson's queue is told, which relock reads and never writes. It
// gets its turn before the next of relock's: yield tells it, and for a moment, or until
// it has left its queue, no FairMutex takes the lock. And who holds an RFairLock tells
// nobody else of its release: while Redisson has the lock, left says to look again soon.
// The names of those keys follow from the queue's. They are no business of a Redis user
// whose rights do not reach that far: hence pcall.
const yieldLua = `
local function theirs(queue)
  local head = redis.pcall('lindex', 'redisson_lock_queue' .. string.sub(queue, 13), 0)
  return type(head) == 'string' and head
end
local function yield(queue, publish, counted, grant)
  local head = theirs(queue)
  if not head then return false end
  local name = string.sub(queue, 13)
  local heard = redis.pcall(publish, 'redisson_lock__channel' .. name .. ':' .. head, '0')
  if type(heard) ~= 'number' or heard == 0 and counted == '1' then return false end
  redis.pcall('set', 'relock_yield' .. name, head, 'px', 100)
  local first = redis.pcall('zrange', queue, 0, 0)[1]
  if first then redis.call(publish, grant .. (string.match(first, '^(.*):') or ''), first .. ' look') end
  return true
end
`

// thereLua: there reports whether a session listens to its channel, or may do so.
const thereLua = `
local function there(channel, publish, counted)
  if counted == '0' then return true end
  local n = redis.pcall('pubsub', publish == 'PUBLISH' and 'numsub' or 'shardnumsub', channel)
  return n[2] ~= 0
end
`

// enterScript takes a fair lock or queues for it. Whoever finds the lock free gives
// it to the head of the queue.
//
//	KEYS  lock, fence, queue
//	ARGV  hold id, lease, 1 to queue or 0, validity of the queue, claim,
//	      what the channel of a grant starts with, PUBLISH or SPUBLISH,
//	      1 if the server knows all subscribers of such a channel
//	reply as that of acquireScript
//
// Twice: a hold of this id is found, or its place in the queue. A second one that comes
// after the end of what the first got would be a second place, and an old grant might be
// taken for a new one: therefore what queues is never sent again.
var enterScript = newScript(fairLua + `
if redis.call('hexists', KEYS[1], ARGV[1]) == 1 then
  redis.call('pexpire', KEYS[1], ARGV[2])
  return tonumber(redis.call('get', KEYS[2])) or one(KEYS[2])
end
if redis.call('exists', KEYS[1]) == 0 then
  local wait = yielded(KEYS[3])
  if wait > 0 then
    if ARGV[3] == '1' then enqueue(KEYS[3], ARGV[1], ARGV[4]) end
    return -1 - wait
  end
  local winner, token
  if redis.call('exists', KEYS[3]) == 1 then
    if ARGV[3] == '1' then enqueue(KEYS[3], ARGV[1], ARGV[4]) end
    winner, token = dispatch(KEYS[1], KEYS[2], KEYS[3], ARGV[5], ARGV[6], ARGV[7], ARGV[8])
  end
  if not winner then
    winner, token = ARGV[1], one(KEYS[2])
    redis.call('hset', KEYS[1], ARGV[1], 1)
  end
  if winner == ARGV[1] then
    redis.call('pexpire', KEYS[1], ARGV[2])
    return token
  end
end
if ARGV[3] == '1' then enqueue(KEYS[3], ARGV[1], ARGV[4]) end
return -1 - left(KEYS[1])
`)

// lookScript looks after many waiters: it keeps their queues alive, gives free locks
// to their heads, and finds grants whose message was lost. It does not queue again a
// waiter that has lost its place: an old grant of that id may still be on its way, and
// must not be taken for a new one. A lock is looked at once for all its waiters.
//
//	KEYS  for each waiter the lock, fence, queue
//	ARGV  validity of the queue, claim, PUBLISH or SPUBLISH, 1 if the server knows
//	      all subscribers, then for each waiter its hold id, lease, and what the
//	      channel of its grants starts with
//	reply for each waiter as that of acquireScript, or lostPlace
//
// Twice: as enterScript.
var lookScript = newScript(fairLua + `
local lost = -4503599627370496
local replies, seen = {}, {}
for i = 1, #KEYS / 3 do
  local lock, fencekey, queue = KEYS[3 * i - 2], KEYS[3 * i - 1], KEYS[3 * i]
  local id, lease, grant = ARGV[3 * i + 2], ARGV[3 * i + 3], ARGV[3 * i + 4]
  local reply
  if type(redis.pcall('zscore', queue, id)) == 'string' then
    if not seen[lock] then
      local fields = redis.pcall('hlen', lock)
      local wait = fields == 0 and yielded(queue) or 0
      if fields == 0 and wait == 0 then
        local winner, token = dispatch(lock, fencekey, queue, ARGV[2], grant, ARGV[3], ARGV[4])
        if not winner then
          winner, token = id, one(fencekey)
          redis.call('hset', lock, id, 1)
        end
        if winner == id then
          redis.call('pexpire', lock, lease)
          reply = token
        end
      end
      redis.call('pexpire', queue, ARGV[1])
      if wait > 0 then
        seen[lock] = -1 - wait
      elseif type(fields) == 'number' then
        seen[lock] = -1 - redis.call('pttl', lock)
        reply = reply or -1 - left(lock) -- one that looks soon is enough
      else
        seen[lock] = lost
      end
    end
    reply = reply or seen[lock]
  elseif redis.pcall('hexists', lock, id) == 1 then
    redis.call('pexpire', lock, lease)
    reply = tonumber(redis.call('get', fencekey)) or one(fencekey)
  end
  replies[i] = reply or lost
end
return replies
`)

// lostPlace is the reply for a waiter that is neither holder nor in the queue, or
// whose lock is something else.
const lostPlace = -1 << 52

// leaveScript ends a fair hold and gives the lock to the next waiter, the head of
// Redisson's queue first; or it ends a place in the queue. If nobody waits, it tells the
// waiters of other kinds of lock.
//
//	KEYS  lock, fence, queue
//	ARGV  hold id, channel, PUBLISH or SPUBLISH, claim, what the channel of a grant
//	      starts with, 1 if the server knows all subscribers
//	reply subscribers that were told (0 after a grant, and for a place), or -1 if
//	      there was neither
//
// Twice: the second finds nothing.
//
// A release is on the way to whoever waits, and what it does is as little as can be:
// the token is one more than the last, unless that may have been the first of a block.
// So tokens fall behind the clock meanwhile, but not behind each other.
var leaveScript = newScript(thereLua + `
if redis.call('hdel', KEYS[1], ARGV[1]) == 0 then
  return redis.call('zrem', KEYS[3], ARGV[1]) - 1
end
if type(redis.pcall('lindex', 'redisson_lock_queue' .. string.sub(KEYS[3], 13), 0)) == 'string' then` + yieldLua + `
  if yield(KEYS[3], ARGV[3], ARGV[6], ARGV[5]) then return 0 end
end
while true do
  local id = redis.call('zpopmin', KEYS[3])[1]
  if not id then return redis.call(ARGV[3], ARGV[2], '0') end
  local channel = ARGV[5] .. (string.match(id, '^(.*):') or '')
  if there(channel, ARGV[3], ARGV[6]) then
    local token = redis.call('incr', KEYS[2])
    if token % 16 == 1 then` + fenceLua + `
      fence(KEYS[2], token > 1 and token - 1)
      token = redis.call('incr', KEYS[2])
    end
    redis.call(ARGV[3], channel, id .. string.format(' %.0f ', token) .. ARGV[4])
    redis.call('hset', KEYS[1], id, 1)
    redis.call('pexpire', KEYS[1], ARGV[4])
    return 0
  end
end
`)
