-- Renews the leases of many holds of Mutexes, FairMutexes and write sides, and the memory of their
-- last tokens. It does not shorten the expiry of a read-write lock whose writer has a lease as a
-- reader as well, which may be longer.
--
--   KEYS   the locks, then their fences; of a single hold perhaps the lock alone: while a slot is
--          being moved, a node refuses a script that names several keys of which it has only some
--   ARGV   the hold id for each lock, with :write for a writer
--          then for each run of locks with equal leases and notes: their number, the lease (ms), 1
--          if it ends by itself else 0, the note to write behind a space, empty to leave it
--   reply  the positions (from 1) of the holds that are gone
--
-- Sent twice: leases of the same length start at the second.
--
-- Redis rewrites each PEXPIRE to PEXPIREAT for replication, which takes a fifth of the time of the
-- script. The leases start when the script does, which is after it was sent.

-- needs: token, leases

return renewAll(function(key, id, ends)
  if redis.pcall('hget', key, id) ~= '1' then return false end
  local writes = string.sub(id, -6) == ':write'
  if not writes or now + redis.call('pttl', key) < ends or redis.call('hlen', key) == 2 then
    redis.call('pexpireat', key, ends)
  end
  return true
end)
