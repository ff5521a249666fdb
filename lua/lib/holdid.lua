-- isHold returns whether a field of a hash is a hold id, of relock or Redisson: the UUID of a
-- session or client, a colon and a number. That of a writer ends with :write, that of one of
-- Redisson's transactions with the transaction.

local function isHold(field)
  local at, rest = string.match(field, '^%x+%-%x+%-%x+%-%x+%-%x+():%-?%d+(.*)$')
  return at == 37 and (rest == '' or string.sub(rest, 1, 1) == ':')
end
