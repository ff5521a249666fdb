package relock

// The scripts of RWMutex. The lock is Redisson's: a hash with the field mode, one
// field for each reader and <id>:write for the writer, and for each hold of a reader
// a key of its own, rwlock_timeout, that ends with the reader's lease.
//
// Beside it stands relock's own hash of intents, with times of the server's clock in
// milliseconds until which they are valid: w:<session> for a session with a waiting
// writer, r:<session> for one with a waiting reader, and turn. A waiting writer stops
// new readers. When a writer releases while readers wait, it is their turn: until all
// that had an intent are in, or the turn is over, no writer gets the lock, and waiting
// writers stop nobody.

const intentLua = `
local function clock()
  local t = redis.call('time')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end
local function left(intents, what, now)
  local most = 0
  for i = 1, #intents, 2 do
    if string.sub(intents[i], 1, #what) == what then
      most = math.max(most, tonumber(intents[i + 1]) - now)
    end
  end
  return most
end
local function intend(key, field, valid)
  redis.call('hset', key, field, string.format('%.0f', clock() + valid))
  redis.call('pexpire', key, math.max(2 * valid, redis.call('pttl', key)))
end
`

// readScript takes the read side for a process.
//
//	KEYS  lock, intents, the hold's rwlock_timeout key
//	ARGV  hold id, lease, field of this owner's write hold or '', session,
//	      validity of an intent, 0 for a call that does not wait
//	reply 1 if held now, and more readers of this process may join;
//	      2 if held now, but a writer waits;
//	      0 if taken without expiry, else -1 - the time to wait
//
// Twice: the hold is found, its lease starts anew.
var readScript = newScript(intentLua + `
local mode = redis.call('hget', KEYS[1], 'mode')
local ours = mode and (redis.call('hexists', KEYS[1], ARGV[1]) == 1
  or ARGV[3] ~= '' and redis.call('hexists', KEYS[1], ARGV[3]) == 1)
local intents = redis.call('hgetall', KEYS[2])
local reply = 1
local stop
if #intents > 0 then
  local now = clock()
  local writer = left(intents, 'w:', now)
  if writer > 0 then
    reply = 2
    if not ours and left(intents, 'turn', now) <= 0 then stop = writer end
  end
end
if ours or not stop and (mode == 'read' or not mode and redis.call('exists', KEYS[1]) == 0) then
  if mode then
    redis.call('hset', KEYS[1], ARGV[1], 1)
  else
    redis.call('hset', KEYS[1], 'mode', 'read', ARGV[1], 1)
  end
  redis.call('set', KEYS[3], 1, 'px', ARGV[2])
  if redis.call('pttl', KEYS[1]) < tonumber(ARGV[2]) then
    redis.call('pexpire', KEYS[1], ARGV[2])
  end
  if #intents > 0 then redis.call('hdel', KEYS[2], 'r:' .. ARGV[4]) end
  return reply
end
if ARGV[5] ~= '0' then intend(KEYS[2], 'r:' .. ARGV[4], tonumber(ARGV[5])) end
if stop and (not mode or mode == 'read') then return -1 - stop end
return -1 - redis.call('pttl', KEYS[1])
`)

// confirmScript asks whether new readers of a process may join its read hold.
//
//	KEYS  lock, intents
//	ARGV  hold id, session, validity of an intent, 0 for a call that does not wait
//	reply 1 they may, 2 the hold is gone, else -1 - the time to wait
//
// Twice: it only asks; an intent starts anew.
var confirmScript = newScript(intentLua + `
if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then return 2 end
local intents = redis.call('hgetall', KEYS[2])
if #intents > 0 then
  local now = clock()
  local writer = left(intents, 'w:', now)
  if writer > 0 and left(intents, 'turn', now) <= 0 then
    if ARGV[3] ~= '0' then intend(KEYS[2], 'r:' .. ARGV[2], tonumber(ARGV[3])) end
    return -1 - writer
  end
  redis.call('hdel', KEYS[2], 'r:' .. ARGV[2])
end
return 1
`)

// writeScript takes the write side. It removes readers whose own leases have ended
// although others keep the lock alive; their rwlock_timeout keys are derived here,
// because only the lock tells who its readers are.
//
//	KEYS  lock, fence, intents
//	ARGV  field of the hold, lease, what a rwlock_timeout key starts with, session,
//	      validity of an intent, 0 for a call that does not wait
//	reply as that of acquireScript
//
// Twice: as acquireScript.
var writeScript = newScript(fenceLua + intentLua + `
local mode = redis.call('hget', KEYS[1], 'mode')
if mode == 'write' and redis.call('hexists', KEYS[1], ARGV[1]) == 1 then
  redis.call('pexpire', KEYS[1], ARGV[2])
  return tonumber(redis.call('get', KEYS[2])) or fence(KEYS[2])
end
local free = not mode and redis.call('exists', KEYS[1]) == 0
if mode == 'read' then
  local readers = redis.call('hgetall', KEYS[1])
  free = true
  for i = 1, #readers, 2 do
    if readers[i] ~= 'mode' then
      local alive = false
      for n = 1, tonumber(readers[i + 1]) or 0 do
        if redis.call('exists', ARGV[3] .. readers[i] .. ':rwlock_timeout:' .. n) == 1 then
          alive = true
          break
        end
      end
      if alive then
        free = false
      else
        redis.call('hdel', KEYS[1], readers[i])
      end
    end
  end
  if free then redis.call('del', KEYS[1]) end
end
local wait
if free then
  local intents = redis.call('hgetall', KEYS[3])
  if #intents > 0 then
    local now = clock()
    if left(intents, 'r:', now) > 0 then
      wait = left(intents, 'turn', now)
      if wait > 0 then free = false end
    end
  end
  if free then
    local token = fence(KEYS[2])
    if #intents > 0 then redis.call('hdel', KEYS[3], 'w:' .. ARGV[4]) end
    local token = fence(KEYS[2]) -- first: it may fail, and a failed script is not undone
    redis.call('hset', KEYS[1], 'mode', 'write', ARGV[1], 1)
    redis.call('pexpire', KEYS[1], ARGV[2])
    return token
  end
end
if ARGV[5] ~= '0' then intend(KEYS[3], 'w:' .. ARGV[4], tonumber(ARGV[5])) end
return -1 - (wait or redis.call('pttl', KEYS[1]))
`)

// releaseWriteScript ends a write hold, or the intent of a writer that gives up. If
// its owner still reads, the lock goes on in read mode.
//
//	KEYS  lock, intents
//	ARGV  field of the hold, channel, PUBLISH or SPUBLISH, session, length of the
//	      readers' turn
//	reply subscribers that were told, or -1 if there was no such hold
//
// Twice: the second finds nothing.
var releaseWriteScript = newScript(intentLua + `
local had = redis.call('hdel', KEYS[1], ARGV[1]) == 1
if had then
  if redis.call('hlen', KEYS[1]) > 1 then
    redis.call('hset', KEYS[1], 'mode', 'read')
  else
    redis.call('del', KEYS[1])
  end
end
local intents = redis.call('hgetall', KEYS[2])
if #intents > 0 then
  redis.call('hdel', KEYS[2], 'w:' .. ARGV[4])
  if had and left(intents, 'r:', clock()) > 0 then intend(KEYS[2], 'turn', tonumber(ARGV[5])) end
elseif not had then
  return -1
end
local told = redis.call(ARGV[3], ARGV[2], '1')
if had then return told end
return -1
`)

// releaseReadScript ends the read hold of a process, or the intent of a reader that
// gives up. If others read on, the lock keeps the longest of their leases, as
// Redisson does.
//
//	KEYS  lock, the hold's rwlock_timeout key, intents
//	ARGV  hold id, channel, PUBLISH or SPUBLISH, session, what a rwlock_timeout key
//	      starts with
//	reply subscribers that were told, or -1 if there was no such hold
//
// Twice: the second finds nothing.
var releaseReadScript = newScript(`
redis.call('hdel', KEYS[3], 'r:' .. ARGV[4])
redis.call('del', KEYS[2])
if redis.call('hdel', KEYS[1], ARGV[1]) == 0 then return -1 end
local fields = redis.call('hgetall', KEYS[1])
local most = 0
for i = 1, #fields, 2 do
  if fields[i] == 'mode' then
    if fields[i + 1] == 'write' then return 0 end
  else
    for n = 1, tonumber(fields[i + 1]) or 0 do
      most = math.max(most, redis.call('pttl', ARGV[5] .. fields[i] .. ':rwlock_timeout:' .. n))
    end
  end
end
if most > 0 then
  redis.call('pexpire', KEYS[1], most)
  return 0
end
redis.call('del', KEYS[1])
return redis.call(ARGV[3], ARGV[2], '0')
`)

// renewReadScript starts the leases of read holds anew.
//
//	KEYS  for each hold the lock and its rwlock_timeout key
//	ARGV  lease, then one hold id for each hold
//	reply the positions (from 1) of the holds that are gone
//
// Twice: a lease of the same length starts at the second.
var renewReadScript = newScript(`
local gone = {}
for i = 1, #KEYS / 2 do
  local lock = KEYS[2 * i - 1]
  if redis.pcall('hexists', lock, ARGV[i + 1]) == 1 and redis.call('pexpire', KEYS[2 * i], ARGV[1]) == 1 then
    if redis.call('pttl', lock) < tonumber(ARGV[1]) then redis.call('pexpire', lock, ARGV[1]) end
  else
    gone[#gone + 1] = i
  end
end
return gone
`)
