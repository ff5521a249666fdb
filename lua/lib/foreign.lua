-- foreign tells a lock that is taken from a key that is no lock: data of an application, or a
-- lock of another library. For the latter it returns an error reply, NOTLOCK. For a lock it
-- returns nil and one of its hold ids, if it knows one. Scripts call it where they refuse,
-- before they write anything. They may pass what redis.pcall returned for the key before.
--
-- A hash is a lock if it has a hold id, whatever an application has added. Of a hash with many
-- fields, 16 are examined, whichever the server returns. A Redis user set up for an older
-- version has no right to HRANDFIELD: then every hash counts as a lock.

-- include: holdid
-- include: wrongtype

local function foreign(lock, reply)
  if type(reply) ~= 'table' then reply = nil end
  local fields = reply or redis.pcall('hrandfield', lock, '16')
  if wrongType(fields) then return redis.error_reply('NOTLOCK type') end
  if fields.err then return reply end
  for _, field in ipairs(fields) do
    if isHold(field) then return nil, field end
  end
  return #fields > 0 and redis.error_reply('NOTLOCK hash') or nil
end
