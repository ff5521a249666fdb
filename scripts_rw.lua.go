package relock

// The scripts of RWMutex. The lock is Redisson's: a hash with the field mode, one
// field for each reader and <id>:write for the writer, and for each hold of a reader
// a key of its own, rwlock_timeout, that ends with the reader's lease. The hash lives
// as long as the longest lease of those in it: whoever starts a lease anew may prolong
// its life, and never shortens it.
//
// Beside it stands relock's own hash of intents, with times of the server's clock in
// milliseconds until which they are valid: w:<hold id> for a writer that waits,
// r:<hold id> for a reader that waits, and turn. A waiting writer stops new readers.
// When a writer releases while readers wait, it is their turn: until all that had an
// intent are in, or the turn is over, no writer gets the lock, and waiting writers
// stop nobody. The fourth, others, is until when readers live that have no key of
// their own: see leasesLua.

const (
	forRedisson = "00"

	clockLua = `
local function clock()
  local t = redis.call('time')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end
`

	// intentsLua reads the intents: for how long writers wait yet, readers other than
	// mine, and for how long it is the readers' turn; and whether there are any at all.
	// It removes those that are over, or that a clock which was set back has left far
	// in the future.
	intentsLua = clockLua + `
local function intents(key, mine)
  local writers, readers, turn = 0, 0, 0
  local all = redis.call('hgetall', key)
  if #all == 0 then return writers, readers, turn, false end
  local now = clock()
  for i = 1, #all, 2 do
    local what, left = all[i], (tonumber(all[i + 1]) or 0) - now
    if left <= 0 or left > 60000 and what ~= 'others' then
      redis.call('hdel', key, what)
    elseif what == 'others' then
      -- no intent
    elseif what == 'turn' then
      turn = left
    elseif string.sub(what, 1, 2) == 'w:' then
      writers = math.max(writers, left)
    elseif what ~= mine then
      readers = math.max(readers, left)
    end
  end
  return writers, readers, turn, true
end
local function intend(key, what, valid)
  redis.call('hset', key, what, string.format('%.0f', clock() + valid))
  redis.call('pexpire', key, math.max(2 * valid, redis.call('pttl', key)))
end
local function prolong(key, lease)
  return redis.call('pttl', key) < tonumber(lease) and redis.call('pexpire', key, lease) == 1
end
`

	// leasesLua tells the dead among the readers from the living. A reader whose
	// rwlock_timeout keys have ended is dead, with one exception: a process with Redisson
	// 3.x that reads several locks renews the keys of one only. Of the others it renews the
	// lock alone, so that its readers live as long as an expiry of the lock does which is
	// not that of some reader's key. Whoever is about to move that expiry takes it down as
	// others.
	//
	// Before Redis 7.2 time goes on within a script, and the server may be stopped between
	// any two commands. So near takes the expiries of lock and key for the same if they may
	// have been so, but for a millisecond, between its looks; and anew, which starts the
	// lease of a reader, makes sure that they are.
	//
	// leases returns for how long the longest lease of the readers goes on, for how long
	// others do, and which readers have no key.
	leasesLua = `
local function near(lock, key)
  local most = redis.call('pttl', lock)
  local left = redis.pcall('pttl', key)
  if type(left) ~= 'number' then left = 0 end -- it is in another node already
  return left > 0 and left <= most + 1 and left >= redis.call('pttl', lock) - 1, left
end
local function anew(lock, key, lease, began)
  for n = 1, 100 do
    if not (began and n == 1) and redis.call('pexpire', key, lease) == 0 then return false end
    if not prolong(lock, lease) or near(lock, key) then break end
  end
  return true
end
local function leases(lock, prefix)
  local longest, others, keyless = 0, redis.call('pttl', lock), {}
  local fields = redis.call('hgetall', lock)
  for i = 1, #fields, 2 do
    if fields[i] ~= 'mode' then
      local most = 0
      for n = 1, tonumber(fields[i + 1]) or 0 do
        local same, left = near(lock, prefix .. fields[i] .. ':rwlock_timeout:' .. n)
        if same then others = 0 end
        most = math.max(most, left)
      end
      if most <= 0 then keyless[#keyless + 1] = fields[i] end
      longest = math.max(longest, most)
    end
  end
  return longest, others, keyless
end
local function kept(key)
  local till = tonumber(redis.call('hget', key, 'others') or 0)
  return till > 0 and math.max(till - clock(), 0) or 0
end
local function keep(lock, key, prefix, mine)
  if redis.call('hget', lock, 'mode') ~= 'read' then return end
  if redis.call('hlen', lock) == 2 and redis.call('hexists', lock, mine) == 1 then return end
  local _, others = leases(lock, prefix)
  if others > 0 then intend(key, 'others', others) end
end
`

	// wakeLua wakes all who wait for a read-write lock. With 1 Redisson wakes those that
	// have gone to sleep; one that is about to, and has seen the lock held, would sleep
	// out the lease. It takes the 0 that follows, which keeps; written like that, which
	// Redisson reads as a 0, it disturbs nobody else.
	wakeLua = `
local function wake(publish, channel)
  local told = redis.call(publish, channel, '1')
  if told > 0 then redis.call(publish, channel, '` + forRedisson + `') end
  return told
end
`

	// enteredLua: a reader is in. The turn is over when it was the last one that waited.
	enteredLua = intentsLua + leasesLua + `
local function entered(key, mine, readers, turn)
  redis.call('hdel', key, mine)
  if turn > 0 and readers == 0 then redis.call('hdel', key, 'turn') end
end
`
)

// readScript takes the read side for a process.
//
//	KEYS  lock, intents, the hold's rwlock_timeout key
//	ARGV  hold id, lease, field of this owner's write hold or '', validity of an
//	      intent, 0 for a call that does not wait, what a rwlock_timeout key starts with
//	reply readJoin if held now, and more readers of this process may join;
//	      readAlone if held now, but a writer waits;
//	      0 if taken without expiry, else -1 - the time to wait
//
// Twice: the hold is found, its lease starts anew.
var readScript = newScript(enteredLua + `
local mode = redis.call('hget', KEYS[1], 'mode')
local ours = mode and (redis.call('hexists', KEYS[1], ARGV[1]) == 1
  or ARGV[3] ~= '' and redis.call('hexists', KEYS[1], ARGV[3]) == 1)
local mine = 'r:' .. ARGV[1]
local writers, readers, turn, any = intents(KEYS[2], mine)
local stopped = writers > 0 and turn == 0
local open = mode == 'read' or not mode and redis.call('exists', KEYS[1]) == 0
if ours or open and not stopped then
  if mode then keep(KEYS[1], KEYS[2], ARGV[5], ARGV[1]) end
  redis.call('hset', KEYS[1], 'mode', mode or 'read', ARGV[1], 1)
  redis.call('set', KEYS[3], 1, 'px', ARGV[2])
  anew(KEYS[1], KEYS[3], ARGV[2], true)
  if any then entered(KEYS[2], mine, readers, turn) end
  return writers > 0 and 2 or 1
end
if ARGV[4] ~= '0' then intend(KEYS[2], mine, tonumber(ARGV[4])) end
if open then return -1 - writers end
return -1 - redis.call('pttl', KEYS[1])
`)

// confirmScript asks whether more readers of a process may join its read hold.
//
//	KEYS  lock, intents
//	ARGV  hold id, the hold id of the reader that asks, validity of an intent, 0 for
//	      a call that does not wait
//	reply readJoin if they may, readAlone if those that wait may, but a writer waits;
//	      readGone if the hold is gone; else -1 - the time to wait
//
// Twice: it only asks; an intent starts anew.
var confirmScript = newScript(enteredLua + `
if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then return 3 end
local mine = 'r:' .. ARGV[2]
local writers, readers, turn, any = intents(KEYS[2], mine)
local open = redis.call('hget', KEYS[1], 'mode') == 'read'
if open and (writers == 0 or turn > 0) then
  if any then entered(KEYS[2], mine, readers, turn) end
  return writers > 0 and 2 or 1
end
if ARGV[3] ~= '0' then intend(KEYS[2], mine, tonumber(ARGV[3])) end
if open then return -1 - writers end
return -1 - redis.call('pttl', KEYS[1])
`)

// writeScript takes the write side. It removes readers whose own leases have ended
// although others keep the lock alive; their rwlock_timeout keys are derived here,
// because only the lock tells who its readers are.
//
//	KEYS  lock, fence, intents
//	ARGV  field of the hold, lease, what a rwlock_timeout key starts with, validity
//	      of an intent, 0 for a call that does not wait
//	reply as that of acquireScript
//
// Twice: as acquireScript. The token comes first: if it cannot be had, nothing is
// taken.
var writeScript = newScript(fenceLua + intentsLua + leasesLua + `
local mode = redis.call('hget', KEYS[1], 'mode')
if mode == 'write' and redis.call('hexists', KEYS[1], ARGV[1]) == 1 then
  prolong(KEYS[1], ARGV[2])
  return tonumber(redis.call('get', KEYS[2])) or fence(KEYS[2])
end
local free = not mode and redis.call('exists', KEYS[1]) == 0
if mode == 'read' then
  local longest, others, keyless = leases(KEYS[1], ARGV[3])
  if #keyless > 0 and others == 0 and kept(KEYS[3]) == 0 then
    redis.call('hdel', KEYS[1], unpack(keyless))
    free = longest == 0
    if free then redis.call('del', KEYS[1]) end
  end
end
local wait
if free then
  local mine = 'w:' .. ARGV[1]
  local _, readers, turn, any = intents(KEYS[3], mine)
  if readers == 0 or turn == 0 then
    local token = fence(KEYS[2])
    if any then redis.call('hdel', KEYS[3], mine, 'turn', 'others') end
    redis.call('hset', KEYS[1], 'mode', 'write', ARGV[1], 1)
    redis.call('pexpire', KEYS[1], ARGV[2])
    return token
  end
  wait = turn
end
if ARGV[4] ~= '0' then intend(KEYS[3], 'w:' .. ARGV[1], tonumber(ARGV[4])) end
return -1 - (wait or redis.call('pttl', KEYS[1]))
`)

// releaseWriteScript ends a write hold, or the intent of a writer that gives up. If
// its owner still reads, the lock goes on in read mode, with the reader's lease, and the
// readers' turn lasts as long as their intents do: no writer gets in meanwhile anyway.
//
//	KEYS  lock, intents
//	ARGV  field of the hold, channel, PUBLISH or SPUBLISH, length of the readers' turn,
//	      what a rwlock_timeout key starts with
//	reply subscribers that were told, or -1 if there was no such hold
//
// Twice: the second finds nothing.
var releaseWriteScript = newScript(intentsLua + leasesLua + wakeLua + `
local had, downgraded = redis.call('hdel', KEYS[1], ARGV[1]) == 1, false
if had then
  local longest = redis.call('hlen', KEYS[1]) > 1 and leases(KEYS[1], ARGV[5]) or 0
  if longest > 0 then
    downgraded = true
    redis.call('hset', KEYS[1], 'mode', 'read')
    redis.call('pexpire', KEYS[1], longest)
  else
    redis.call('del', KEYS[1])
  end
end
local mine = 'w:' .. ARGV[1]
local _, readers, _, any = intents(KEYS[2], mine)
local waited = any and redis.call('hdel', KEYS[2], mine) == 1
if not had and not waited then return -1 end
if had and readers > 0 then
  intend(KEYS[2], 'turn', downgraded and readers or tonumber(ARGV[4]))
end
local told = wake(ARGV[3], ARGV[2])
return had and told or -1
`)

// releaseReadScript ends the read hold of a process, or the intent of a reader that
// gives up. If others read on, the lock keeps the longest of their leases, as
// Redisson does.
//
//	KEYS  lock, the hold's rwlock_timeout key, intents
//	ARGV  hold id, channel, PUBLISH or SPUBLISH, what a rwlock_timeout key starts with
//	reply subscribers that were told, or -1 if there was no such hold
//
// Twice: the second finds nothing.
var releaseReadScript = newScript(intentsLua + leasesLua + `
redis.call('hdel', KEYS[3], 'r:' .. ARGV[1])
if redis.call('hdel', KEYS[1], ARGV[1]) == 0 then
  redis.call('del', KEYS[2])
  return -1
end
local most = 0
if redis.call('hlen', KEYS[1]) > 1 then
  if redis.call('hget', KEYS[1], 'mode') == 'write' then
    redis.call('del', KEYS[2])
    return 0
  end
  local longest, others, keyless = leases(KEYS[1], ARGV[4])
  if near(KEYS[1], KEYS[2]) then others = 0 end
  if #keyless > 0 then longest = math.max(longest, others, kept(KEYS[3])) end
  most = longest
end
redis.call('del', KEYS[2])
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
//
// The name of the intents is derived here: while its slot is moved, a node refuses a
// script that names keys of which it has some and not others, and mostly there are none.
var renewReadScript = newScript(intentsLua + leasesLua + `
local gone = {}
for i = 1, #KEYS / 2 do
  local lock, key, id = KEYS[2 * i - 1], KEYS[2 * i], ARGV[i + 1]
  local held = redis.pcall('hexists', lock, id) == 1
  if held then
    local prefix = string.sub(key, 1, -string.len(id .. ':rwlock_timeout:1') - 1)
    keep(lock, 'relock_intent:' .. string.sub(prefix, 1, -2), prefix, id)
    held = anew(lock, key, ARGV[1])
  end
  if not held then gone[#gone + 1] = i end
end
return gone
`)

// renewWriteScript starts the leases of write holds anew, as renewScript does, and
// leaves the lock the longer lease that its owner may have as a reader.
//
//	KEYS  locks
//	ARGV  lease, then the field of one hold for each lock
//	reply the positions (from 1) of the holds that are gone
//
// Twice: a lease of the same length starts at the second.
var renewWriteScript = newScript(`
local gone = {}
for i, key in ipairs(KEYS) do
  if redis.pcall('hexists', key, ARGV[i + 1]) == 1 then
    if redis.call('pttl', key) < tonumber(ARGV[1]) then redis.call('pexpire', key, ARGV[1]) end
  else
    gone[#gone + 1] = i
  end
end
return gone
`)
