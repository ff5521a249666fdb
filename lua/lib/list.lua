-- Keeps a list of relock's own readers of a lock: a sorted set of hold ids, each with the
-- time of the server's clock (ms) at which its lease ends. If it names as many readers as
-- the lock has, Redisson has no readers there and nobody has to walk over all of them: the
-- lock lives as long as the last of the list, and nobody dies before the first.
--
-- A reader is added when it acquires the lock, and removed together with its field in the
-- lock. Other clients do not know the list, but they delete a lock as a whole, and hold ids
-- are used once. So the list names readers of the present lock or none of them, and it is
-- enough to look for the first. (An older version of relock also removes single readers, but
-- only those whose leases have ended, and these come first.) A list that names none is
-- deleted by the next reader that acquires the lock. A reader may be missing: because an
-- older version added it, because the list was lost, or because the list is on another node
-- while its slot is being moved. It counts as a reader of Redisson until it has renewed its
-- lease; until then all readers are walked over, as without a list.
--
-- The name of the list is derived, and every access may fail: while the slot is being moved,
-- a node refuses a script that uses several keys of which it has only some, and a Redis user
-- set up for an older version has no right to it. Only a reader that acquires the lock
-- creates a list. Its script is refused during the move, so that no node has a second list
-- beside the one that is still to arrive.
--
--   listed    whether the list is of the present lock, and whether it names all readers
--   explains  whether the list is of the present lock, and whether there are no others to
--             store, because the lock ends with the last of the list or has no other readers
--   living    whether the list names all readers and they are alive
--   last      how long (ms) the longest lease of the other readers lasts, for a reader that
--             was just removed from the list; 0 if the list does not tell
--   enlist    adds readers. The list lives for two of their leases if it is new, or would not
--             outlive one

-- include: clock

local function listOf(prefix) return 'relock_readers:' .. string.sub(prefix, 1, -2) end
local function listed(lock, list)
  local id = redis.pcall('zrange', list, 0, 0)[1]
  if not id or redis.call('hexists', lock, id) == 0 then return false, false end
  return true, redis.call('zcard', list) == redis.call('hlen', lock) - 1
end

local function explains(lock, list, now, ttl)
  local last = redis.pcall('zrange', list, -1, -1, 'withscores')
  if not last[1] or redis.call('hexists', lock, last[1]) == 0 then return false, false end
  return true, math.abs(now + ttl - last[2]) <= 1 or select(2, listed(lock, list))
end

local function living(lock, list)
  if not select(2, listed(lock, list)) then return false end
  return tonumber(redis.call('zrange', list, 0, 0, 'withscores')[2]) > clock()
end

local function last(list, prefix, readers)
  if redis.pcall('zcard', list) ~= readers then return 0 end
  local left = redis.pcall('pttl', prefix .. redis.call('zrange', list, -1, -1)[1] .. ':rwlock_timeout:1')
  return type(left) == 'number' and left or 0
end

local function enlist(list, ids, ends, lease, new)
  local added = {}
  for _, id in ipairs(ids) do
    added[#added + 1] = ends
    added[#added + 1] = id
  end
  local n = redis.pcall('zadd', list, unpack(added))
  if type(n) == 'number' and (new or redis.call('pttl', list) < tonumber(lease)) then
    redis.call('pexpire', list, 2 * lease)
  end
end
