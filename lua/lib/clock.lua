-- clock returns the time of the server in milliseconds.

local function clock()
  local t = redis.call('time')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end
