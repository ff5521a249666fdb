--!df flags=allow-undeclared-keys
-- Renews the leases of read holds.
--
--   KEYS   for each hold: lock, rwlock_timeout key
--   ARGV   lease (ms), then the id of each hold
--   reply  the positions (from 1) of the holds that are gone
--
-- Sent twice: a lease of the same length starts at the second.
--
-- The name of the intents is derived here and not declared: while a slot is being moved, a
-- node refuses a script that names several keys of which it has only some, and mostly there
-- are no intents.

-- include: intents
-- include: leases
-- include: list

local gone, lists, now = {}, {}, clock()
for i = 1, #KEYS / 2 do
  local lock, key, id = KEYS[2 * i - 1], KEYS[2 * i], ARGV[i + 1]
  local held = redis.pcall('hexists', lock, id) == 1
  if held then
    local prefix = string.sub(key, 1, -string.len(id .. ':rwlock_timeout:1') - 1)
    local list = lists[lock]
    if not list then
      list = {name = listOf(prefix)}
      lists[lock] = list
      local whole
      list.valid, whole = listed(lock, list.name)
      if not whole and redis.call('hget', lock, 'mode') == 'read' then
        keep(lock, 'relock_intent:' .. string.sub(prefix, 1, -2), prefix)
      end
    end
    held = startLease(lock, key, ARGV[1])
    if held and list.valid then enlist(list.name, id, now, ARGV[1], true) end
  end
  if not held then gone[#gone + 1] = i end
end
return gone
