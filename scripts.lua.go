package relock

import (
	"crypto/sha1"
	"encoding/hex"
)

// Each script is sent by EVALSHA, and by EVAL when the server does not know it. A
// script may be sent twice with the same arguments without changing the outcome;
// each says why. Times are milliseconds.

type script struct{ text, sha string }

func newScript(text string) *script {
	sum := sha1.Sum([]byte(text))
	return &script{text: text, sha: hex.EncodeToString(sum[:])}
}

// fenceLua issues fencing tokens on the server's clock. It is part of every script
// that acquires. Tokens count 1024 to the millisecond, so that they outlive the loss
// of all data as long as they do not run ahead of the clock. An acquisition gets a
// block of them, one for each owner that this process passes the lock to; its first
// token tells how long it is:
//
//   - 1024 at a multiple of 1024, when the clock has passed the last block;
//   - else 16 at another multiple of 16, as long as that is less than 2 ms ahead;
//   - else 1, elsewhere.
//
// Where blocks of 16 follow each other faster than the clock, which is more than 64
// acquisitions a millisecond, the lead over it grows to 2 ms, and blocks of 1 stop it
// there: they cost 2 tokens at most, and no server runs a script in the 2 µs of those.
// Where no last token is known, all data may have been lost a moment ago, and the
// next one starts a little more than 2 ms ahead. The key expires an hour after the
// clock has passed the token.
//
// Lua prints large numbers as 1.78e+15; hence the format. Numbers among the arguments
// cost more than strings; hence '3600000', and '1' in acquireScript. Beside the token
// fence returns the two arguments that it stored it with.
const fenceLua = `
local function fence(key, last, t)
  t = t or redis.call('time')
  local ms = t[1] * 1000 + math.floor(t[2] / 1000)
  local now = t[1] * 1024000 + math.floor(t[2] * 1.024)
  if last == nil then last = redis.call('get', key) end
  last = tonumber(last or nil)
  local f = last
  if not last then
    f = now + 2096
  elseif last % 1024 == 0 then
    f = last + 1024
  elseif last % 16 == 0 then
    f = last + 16
  else
    f = last + 1
  end
  local block = f + -f % 16
  if block % 1024 == 0 then block = block + 16 end
  if last and f <= ms * 1024 then
    f = ms * 1024
  elseif not last or block <= now + 2048 then
    f = block
  elseif f % 16 == 0 then
    f = f + 1
  end
  local px = '3600000'
  if f > ms * 1024 then px = tostring(3600000 + math.ceil(f / 1024) - ms) end
  local text = string.format('%.0f', f)
  redis.call('set', key, text, 'px', px)
  return f, text, px
end
`

// tokens returns how many fencing tokens the block that starts with token has.
func tokens(token int64) int64 {
	switch {
	case token%1024 == 0:
		return 1024
	case token%16 == 0:
		return 16
	}
	return 1
}

// acquireScript takes an exclusive lock if it is free.
//
//	KEYS  lock, fence
//	ARGV  hold id, lease
//	reply fencing token (> 0) if held by this id now;
//	      0 if held by another without expiry, else -1 - its time to live
//
// Twice: a hold of this id is found, its lease starts anew, and its token, which
// nobody can have moved while it was held, is returned again.
//
// The token comes first: if it cannot be had, nothing is taken.
var acquireScript = newScript(fenceLua + `
local ttl = redis.call('pttl', KEYS[1])
if ttl ~= -2 then
  if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then
    return -1 - ttl
  end
  redis.call('pexpire', KEYS[1], ARGV[2])
  return tonumber(redis.call('get', KEYS[2])) or fence(KEYS[2])
end
local token = fence(KEYS[2])
redis.call('hset', KEYS[1], ARGV[1], '1')
redis.call('pexpire', KEYS[1], ARGV[2])
return token
`)

// releaseScript ends an exclusive hold.
//
//	KEYS  lock
//	ARGV  hold id, channel, PUBLISH or SPUBLISH
//	reply subscribers that were told, or -1 if there was no such hold
//
// Twice: the second finds nothing. A hold id is never used again, so it cannot end
// anybody else's hold, however late it arrives.
var releaseScript = newScript(`
if redis.call('hdel', KEYS[1], ARGV[1]) == 0 then return -1 end
return redis.call(ARGV[3], ARGV[2], '0')
`)

// acquireAllScript takes several exclusive locks, all or none.
//
//	KEYS  locks, then their fences
//	ARGV  for each lock hold id and lease
//	reply 0 and the fencing tokens; or the position (from 1) of a lock that is taken,
//	      and as acquireScript when it may be free
//
// Locks that were taken together before have like tokens, which are worked out once.
//
// Twice: as acquireScript, for each lock.
var acquireAllScript = newScript(fenceLua + `
local call = redis.call
local n = #KEYS / 2
local reply, ours = {0}, nil
if call('exists', unpack(KEYS, 1, n)) > 0 then
  ours = {}
  for i = 1, n do
    local ttl = call('pttl', KEYS[i])
    if ttl ~= -2 then
      if call('hexists', KEYS[i], ARGV[2 * i - 1]) == 0 then return {i, -1 - ttl} end
      ours[i] = true
    end
  end
end
local t = call('time')
local last = call('mget', unpack(KEYS, n + 1, 2 * n))
local like, f, text, px
for i = 1, n do -- first: it may fail, and a failed script is not undone
  local was = last[i]
  if ours and ours[i] and tonumber(was) then
    reply[i + 1] = tonumber(was)
  elseif was == like and f then
    call('set', KEYS[n + i], text, 'px', px)
    reply[i + 1] = f
  else
    f, text, px = fence(KEYS[n + i], was, t)
    like, reply[i + 1] = was, f
  end
end
for i = 1, n do
  local key = KEYS[i]
  if not (ours and ours[i]) then call('hset', key, ARGV[2 * i - 1], '1') end
  call('pexpire', key, ARGV[2 * i])
end
return reply
`)

// releaseAllScript ends several exclusive holds.
//
//	KEYS  locks
//	ARGV  PUBLISH or SPUBLISH, then for each lock hold id and channel
//	reply for each lock as releaseScript
//
// Twice: as releaseScript, for each lock.
var releaseAllScript = newScript(`
local call, pcall = redis.call, redis.pcall
local publish, told = ARGV[1], {}
for i = 1, #KEYS do
  if pcall('hdel', KEYS[i], ARGV[2 * i]) == 1 then
    told[i] = call(publish, ARGV[2 * i + 1], '0')
  else
    told[i] = -1
  end
end
return told
`)

// renewScript starts the leases of many exclusive holds anew.
//
//	KEYS  locks
//	ARGV  lease, then one hold id for each lock
//	reply the positions (from 1) of the holds that are gone
//
// Twice: a lease of the same length starts at the second.
//
// This is most of what held locks cost a server, so it counts: of every lock Redis makes
// PEXPIREAT from PEXPIRE, to replicate it, and that takes a fifth of the script's time.
// The leases start when the script does, which is after it was sent.
var renewScript = newScript(`
local call, pcall, ids, gone = redis.call, redis.pcall, ARGV, {}
local t = call('time')
local ends = string.format('%.0f', t[1] * 1000 + math.floor(t[2] / 1000) + ARGV[1])
for i, key in ipairs(KEYS) do
  if pcall('hexists', key, ids[i + 1]) == 1 then
    call('pexpireat', key, ends)
  else
    gone[#gone + 1] = i
  end
end
return gone
`)

// forceScript opens a lock whoever holds it, tells the holders' sessions, and wakes
// those who wait.
//
//	KEYS  lock, fence, queue of its FairMutex
//	ARGV  channel of the lock, channel of a read-write lock of this name,
//	      PUBLISH or SPUBLISH, prefix of the sessions' channels, name, and of
//	      dispatch: claim, prefix of the channels of grants, counted
//	reply 1 if it was locked, else 0
//
// Twice: the second finds nothing, or a hold taken in between; the caller sends it
// again only if the first got no reply.
var forceScript = newScript(fairLua + wakeLua + `
local fields = redis.call('hkeys', KEYS[1])
if #fields == 0 then return 0 end
local mode = redis.call('hget', KEYS[1], 'mode')
redis.call('del', KEYS[1])
for _, field in ipairs(fields) do
  local session, n = string.match(field, '^(.*):(%d+)')
  if session then
    redis.call('publish', ARGV[4] .. session, 'lost ' .. session .. ':' .. n .. ' ' .. ARGV[5])
  end
end
if mode then
  wake(ARGV[3], ARGV[2])
elseif not yield(KEYS[3], ARGV[3], ARGV[8], ARGV[7]) and (redis.call('exists', KEYS[3]) == 0 or
  not dispatch(KEYS[1], KEYS[2], KEYS[3], ARGV[6], ARGV[7], ARGV[3], ARGV[8])) then
  redis.call(ARGV[3], ARGV[1], '0')
end
return 1
`)

// inspectScript reads a lock. It writes nothing.
//
//	KEYS  lock, queue of its FairMutex
//	reply time to live (-1 none, -2 not locked), waiters in the queue,
//	      then fields and values of the lock
var inspectScript = newScript(`
local r = redis.call('hgetall', KEYS[1])
table.insert(r, 1, redis.call('zcard', KEYS[2]))
table.insert(r, 1, redis.call('pttl', KEYS[1]))
return r
`)
