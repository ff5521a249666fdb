-- Renews the leases of many holds of Mutexes, FairMutexes and write sides, and the memory of their
-- last tokens. It does not shorten the expiry of a read-write lock whose writer has a longer lease
-- as a reader.
--
--   KEYS   the locks, then their fences; of a single hold perhaps the lock alone: while a slot is
--          being moved, a node
--          refuses a script that names several keys of which it has only some
--   ARGV   the hold id for each lock, with :write for a writer
--          then for each run of locks with equal leases: their number, the lease (ms), 1 if it ends
--          by itself else 0
--   reply  the positions (from 1) of the holds that are gone
--
-- Sent twice: leases of the same length start at the second.
--
-- Renewal is most of what held locks cost a server. Hence PEXPIREAT: Redis rewrites each PEXPIRE to
-- it for replication, which takes a fifth of the time of the script. The leases start when the
-- script does, which is after it was sent.

-- needs: core

local call, pcall, ids, gone = redis.call, redis.pcall, ARGV, {}
local n = #KEYS == 1 and 1 or #KEYS / 2
local run, left, ends, lease = n - 2, 0, nil, nil
for i = 1, n do
  if left == 0 then
    run = run + 3
    left, lease = tonumber(ARGV[run]), tonumber(ARGV[run + 1])
    ends = now + lease
  end
  left = left - 1
  local key, fence = KEYS[i], KEYS[n + i]
  if pcall('hget', key, ids[i]) ~= '1' then
    gone[#gone + 1] = i
  elseif string.sub(ids[i], -6) ~= ':write' or now + call('pttl', key) < tonumber(ends) then
    call('pexpireat', key, ends)
  end
  local lives = fence and pcall('pttl', fence)
  if type(lives) == 'number' and lives > 0 then
    if ARGV[run + 2] == '1' then forget(fence) end
    if lives < 2 * lease then
      call('pexpireat', fence, now + 2 * lease + 60000)
    end
  end
end
return gone
