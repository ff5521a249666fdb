-- What the key of a lock holds.
--
--   wrongType  returns whether a reply of redis.pcall is the error of a key of another type
--   isHold     returns whether a field of a hash is a hold id, of relock or Redisson: the UUID of a session or
--              client, a colon, a decimal number (negative for some threads of Redisson), for a writer :write
--   foreign    returns the error NOTLOCK for a key that is no lock: data of an application, or a lock of another
--              library. For a lock it returns nil, one of its hold ids, if it knows one, and how many fields it has,
--              up to 16. Scripts call it where they refuse, before they write anything. A hash is a lock if one of 16
--              fields is a hold id, or if the user has no right to HRANDFIELD
--   many       runs a command with many arguments
--   strip      ends a lock with the hold ids that it still has. If an application has added fields (bare is false),
--              it removes only what is the lock's

local function wrongType(reply)
  return type(reply) == 'table' and string.find(reply.err or '', 'WRONGTYPE', 1, true) and true
end

local hex4 = '%x%x%x%x'
local holdId = '^' .. hex4 .. string.rep(hex4 .. '%-', 4) .. string.rep(hex4, 3) .. ':%-?%d+(.*)$'

local function isHold(field)
  local rest = string.match(field, holdId)
  return rest == '' or rest == ':write'
end

local function foreign(lock)
  local fields = redis.pcall('hrandfield', lock, '16')
  if wrongType(fields) then return redis.error_reply('NOTLOCK type') end
  if fields.err then
    local n = redis.pcall('hlen', lock)
    return wrongType(n) and redis.error_reply('NOTLOCK type') or nil
  end
  for _, field in ipairs(fields) do
    if isHold(field) then return nil, field, #fields end
  end
  return #fields > 0 and redis.error_reply('NOTLOCK hash') or nil
end

local function many(command, key, items)
  for n = 1, #items, 1000 do redis.call(command, key, unpack(items, n, math.min(n + 999, #items))) end
end

local function strip(lock, holds, bare)
  if bare then
    redis.call('del', lock)
    return
  end
  redis.call('hdel', lock, 'mode')
  many('hdel', lock, holds)
end
