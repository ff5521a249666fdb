-- wrongType returns whether a reply of redis.pcall is the error of a key of another type.

local function wrongType(reply)
  return type(reply) == 'table' and string.find(reply.err or '', 'WRONGTYPE', 1, true) and true
end
