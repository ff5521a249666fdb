-- What a key holds; and what the usual ways need of the queue, which queue.lua describes.
--
-- A hold id is the UUID of a session of relock or a client of Redisson, a colon, a decimal number,
-- and :write for a writer. The UUIDs of Redisson are of version 4, those of relock of version 8.

local function isRedissons(id) return id and string.sub(id, 15, 15) == '4' end

local x4 = '%x%x%x%x'
local uuid = x4 .. x4 .. '%-' .. x4 .. '%-' .. x4 .. '%-' .. x4 .. '%-' .. x4 .. x4 .. x4
local holdId = '^' .. uuid .. ':%-?%d+(.*)$'
local function isHold(text)
  local rest = string.match(text, holdId)
  return rest == '' or rest == ':write'
end

-- forget has the fence key name nobody: so no lease has run out when the lock is free. The time
-- until which readers that have left keep the lock taken (phase.lua) is not forgotten.
local function forget(key)
  local token, id = fenceOf(key)
  if id == '-' then return end
  local rests = id == 'readers' and string.match(redis.call('get', key), ' (%d+)$')
  if rests and tonumber(rests) > now then return end
  redis.call('set', key, string.format('%.0f -', token or 0), 'keepttl')
end

-- tokenOf returns the last token if it was issued to that hold id, which has the lock; else the
-- fence key has been lost, or somebody has written it.
local function tokenOf(key, id)
  local token, of = fenceOf(key)
  return of == id and token or nil
end

-- remember has the fence key live a minute longer than a lease that ends in ms.
local function remember(key, ms)
  if redis.call('pttl', key) < ms + 60000 then redis.call('pexpire', key, ms + 60000) end
end

-- notLock returns the error of a lock whose key holds something else, from the reply of redis.pcall
-- to a command for it; nil if that is no error.
local function notLock(reply)
  if type(reply) ~= 'table' or not reply.err then return nil end
  return string.find(reply.err, 'WRONGTYPE', 1, true) and redis.error_reply('NOTLOCK type') or reply
end

-- holderOf returns a hold id that has the lock, or nil and an error: the key is not a lock. Without
-- the right to HRANDFIELD nobody knows.
local function holderOf(lock)
  local fields = redis.pcall('hrandfield', lock, '2')
  if fields.err then
    return nil, string.find(fields.err, 'WRONGTYPE', 1, true) and notLock(fields) or nil
  end
  local holder = fields[1] == 'mode' and fields[2] or fields[1]
  if #fields > 0 and not isHold(holder) then return nil, redis.error_reply('NOTLOCK hash') end
  return holder
end

-- taken returns the reply to a call that finds a lock taken: -1 minus its time to live, which is
-- over by now if readers that were gone had it.
local function taken(lock)
  local ttl = redis.call('pttl', lock)
  return -1 - (ttl == -2 and 1 or ttl)
end

local function newQueue(lock, fence, queue, channel, grants, numsub, id)
  return {
    lock = lock, fence = fence, queue = queue, channel = channel, grants = grants, numsub = numsub,
    session = sessionOf(id), fields = {}, gone = {}, here = {}, lives = 15000, lull = 1000000,
    form = '^(%S+) ?(%d*)$', suffix = '',
  }
end

-- newLock returns q of a read-write lock (readers.lua).
local function newLock(keys, prefix, channel, grants, numsub, id)
  local q = newQueue(keys[1], keys[2], keys[3], channel, grants, numsub, id)
  q.readers, q.prefix, q.lives = keys[4], prefix, 5000
  q.fields, q.suffix = {'mode', 'write'}, ':write'
  return q
end

local function publish(q, channel, text)
  return redis.call(q.numsub == 'shardnumsub' and 'spublish' or 'publish', channel, text)
end
local function tell(q, session, text) publish(q, q.grants .. session, text) end
local function want(q, holder)
  local text = 'wanted ' .. holder .. ' ' .. q.lock
  redis.pcall('publish', 'relock_session:' .. sessionOf(holder), text)
end

local function idOf(entry) return string.match(entry, '^%S+') or '' end

-- hintOf is how a session is told which of its entries is to poll. Others may hear that, and must
-- not learn the whole hold id of an entry: who knows it can forge a grant.
local function hintOf(entry) return string.match(entry, ':(%d%d?%d?%d?)') or '' end
local function callUp(q, entry) tell(q, sessionOf(entry), 'poll ' .. hintOf(entry)) end

local function grantOf(entry)
  return math.min(tonumber(string.match(entry, ' (%d+)$') or 5000), 5000)
end

-- isEntry returns whether a member of the queue is an entry: anybody may have put something there.
local function isEntry(q, text, suffix)
  local id, grant = string.match(text, q.form)
  return id and string.match(id, holdId) == suffix and (grant == '' or (tonumber(grant) or 0) > 0)
end

-- many runs a command with many arguments.
local function many(command, key, items)
  for n = 1, #items, 1000 do
    redis.call(command, key, unpack(items, n, math.min(n + 999, #items)))
  end
end

-- arrive adds an entry, with a score that it had before unless that is empty. It returns the score,
-- and whether nobody of relock waits already. If nobody has come lately, the others may be dead and
-- poll no more: the queue is to outlive the first poll of this entry.
local function arrive(q, queue, entry, score)
  local last = redis.call('zrange', queue, -2, -1, 'withscores')
  local n = last[#last - 1] == 'redisson' and #last - 2 or #last
  local latest = tonumber(last[n]) or 0
  if score == '' then score = latest < 9007199254740991 and math.max(us, latest + 1) or us end
  redis.call('zadd', queue, score, entry)
  if n == 0 or math.abs(us - latest) > q.lull then redis.call('pexpire', queue, q.lives) end
  return tonumber(score), n < 2
end

-- used records that Redisson has the lock, which the first waiter has found: its turn is over.
local function used(q)
  forget(q.fence)
  if (tonumber(redis.call('zscore', q.queue, 'redisson') or 0) or 0) < 0 then
    redis.call('zadd', q.queue, us + 20000, 'redisson')
  end
end

-- behind returns the reply of a script that acquires a lock and finds it taken, for ttl (ms): it
-- queues the entry. Without one it makes one attempt, or is sent again and finds its own hold.
local function behind(q, ttl, id, lease, entry, score, holder)
  local has, no = holderOf(q.lock)
  if no then return no end
  if entry == '' then
    if redis.call('hget', q.lock, id) ~= '1' then return {-1 - ttl, 0, 0} end
    if ttl < tonumber(lease) then redis.call('pexpire', q.lock, lease) end
    remember(q.fence, lease)
    return {tokenOf(q.fence, holder) or (issue(q.fence, holder, lease)), span(lease), 1}
  end
  local arrived, first = arrive(q, q.queue, entry, score)
  if first and isRedissons(has) then
    used(q)
    return {-1 - ttl, arrived, 1}
  end
  if first and has and not (q.readers and redis.call('hget', q.lock, 'mode') == 'read') then
    want(q, has)
  end
  return {-1 - ttl, arrived, 0}
end

-- grant gives the lock to an entry of the queue, for a lease, and removes what was passed. The next
-- holder is stored before the holds that end are removed: in a slot that is being moved, a key that
-- has become empty has moved. It returns the token, and 2 or 1 as issue does; or nil and an error:
-- nothing has changed.
local function grant(q, entry, lease, holder, ends, note)
  local token, again = issue(q.fence, holder, lease, note)
  if not token then return nil, again end
  local set = {unpack(q.fields)}
  set[#set + 1], set[#set + 2] = idOf(entry), '1'
  redis.call('hset', q.lock, unpack(set))
  if #ends > 0 then redis.call('hdel', q.lock, unpack(ends)) end
  redis.call('pexpire', q.lock, lease)
  q.gone[#q.gone + 1] = entry
  many('zrem', q.queue, q.gone)
  return token, again
end

-- give gives the lock to an entry for its grant timeout, as grant does, and tells its session; more
-- says whether others wait behind it.
local function give(q, entry, more, ends)
  local id, lease = idOf(entry), grantOf(entry)
  local token, err = grant(q, entry, lease, id, ends)
  if not token then
    callUp(q, entry)
    return nil, err
  end
  local text = string.format('%.0f %s%d ', token, more and '+' or '', lease)
  tell(q, sessionOf(entry), 'granted ' .. id .. ' ' .. text .. q.lock)
  return token
end

-- giveFirst gives the lock to the first of the queue as a hold id ends, and returns true, if all is
-- as usual: its session is subscribed, and nobody of Redisson is. some are the first entries with
-- their scores.
local function giveFirst(q, some, id)
  local entry = some[1]
  if not entry or q.numsub == '' or not isEntry(q, entry, q.suffix) then return false end
  local n = redis.pcall('pubsub', q.numsub, q.channel, q.grants .. sessionOf(entry))
  if n[2] ~= 0 or n[4] == 0 or tonumber(some[2]) < 0 then return false end
  return redis.pcall('hget', q.lock, id) == '1' and give(q, entry, some[3] ~= nil, {id}) ~= nil
end
