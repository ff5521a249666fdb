-- isHold returns whether a field of a hash is a hold id, of relock or Redisson: the UUID of a
-- session or client, a colon, a decimal number, and nothing else. A thread id of Redisson may be
-- negative. Only the writer of a read-write lock has :write behind it.

local hex4 = '%x%x%x%x'
local holdId = '^' .. hex4 .. string.rep(hex4 .. '%-', 4) .. string.rep(hex4, 3) .. ':%-?%d+(.*)$'

local function isHold(field)
  local rest = string.match(field, holdId)
  return rest == '' or rest == ':write'
end
