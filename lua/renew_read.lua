--!df flags=allow-undeclared-keys
-- Renews the leases of read holds.
--
--   KEYS   for each hold: lock, rwlock_timeout key
--   ARGV   the id of each hold
--          then for each run of holds with equal leases: their number, the lease (ms)
--   reply  the positions (from 1) of the holds that are gone
--
-- Sent twice: leases of the same length start at the second.
--
-- The name of the list is derived here and not declared: while a slot is being moved, a node refuses a script that
-- names several keys of which it has only some.

-- needs: fence, lock, readers

local gone, lists = {}, {}
local run, left, lease = #KEYS / 2 - 1, 0, nil
for i = 1, #KEYS / 2 do
  if left == 0 then
    run = run + 2
    left, lease = tonumber(ARGV[run]), ARGV[run + 1]
  end
  left = left - 1
  local lock, key, id = KEYS[2 * i - 1], KEYS[2 * i], ARGV[i]
  local ends
  if redis.pcall('hexists', lock, id) == 1 then
    local prefix = string.sub(key, 1, -string.len(id .. ':rwlock_timeout:1') - 1)
    local list = lists[lock]
    if not list then
      list = {name = listOf(prefix)}
      lists[lock] = list
      local whole
      list.valid, whole = listed(lock, list.name)
      if not whole and redis.call('hget', lock, 'mode') == 'read' then keepOthers(lock, prefix) end
    end
    ends = startLease(lock, key, lease)
    if ends and list.valid then enlist(list.name, {id}, ends, lease) end
  end
  if not ends then gone[#gone + 1] = i end
end
return gone
