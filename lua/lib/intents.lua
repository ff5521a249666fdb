-- The keys of a read-write lock, and the intents.
--
-- The lock is Redisson's: a hash with the field mode, one field for each reader, and
-- <id>:write for the writer. Each hold of a reader has a key of its own, rwlock_timeout,
-- which expires with the lease of the reader. The hash expires with the longest lease of its
-- holders; starting a lease may prolong its life and never shortens it.
--
-- The intents are a hash of relock's own. Its values are times of the server's clock (ms)
-- until which the fields are valid:
--
--   w:<hold id>  a writer waits. It stops new readers
--   r:<hold id>  a reader waits
--   turn         a writer has released while readers waited. Until all of these have
--                acquired the lock, or the turn ends, no writer acquires the lock, and
--                waiting writers stop nobody
--   others       readers without a key of their own are alive; see lib/leases.lua
--
-- lib/list.lua keeps a list of relock's own readers.
--
-- intents returns for how long (ms) writers, readers other than mine, and the readers' turn
-- are still valid, and whether there is any intent. It deletes those that have ended, and
-- those that a clock which was set back has left far in the future. intend stores an intent.
-- prolong extends the life of a key if it would end before the lease, and returns whether
-- it did.

-- include: clock

local function intents(key, mine)
  local writers, readers, turn = 0, 0, 0
  local all = redis.call('hgetall', key)
  if #all == 0 then return writers, readers, turn, false end
  local now = clock()
  for i = 1, #all, 2 do
    local what, left = all[i], (tonumber(all[i + 1]) or 0) - now
    if left <= 0 or left > 60000 and what ~= 'others' then
      redis.call('hdel', key, what)
    elseif what == 'turn' then
      turn = left
    elseif string.sub(what, 1, 2) == 'w:' then
      writers = math.max(writers, left)
    elseif what ~= mine and what ~= 'others' then
      readers = math.max(readers, left)
    end
  end
  return writers, readers, turn, true
end

local function intend(key, what, valid)
  redis.call('hset', key, what, string.format('%.0f', clock() + valid))
  redis.call('pexpire', key, math.max(2 * valid, redis.call('pttl', key)))
end

local function prolong(key, lease, ttl)
  return (ttl or redis.call('pttl', key)) < tonumber(lease) and redis.call('pexpire', key, lease) == 1
end
