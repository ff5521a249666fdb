-- Scripts run in the Lua of Redis: without files, processes and modules. Run luacheck in
-- the directory of this file.
std = 'redis'
stds.redis = {
  read_globals = {
    redis = {fields = {'call', 'error_reply', 'pcall'}},
    string = {fields = {'find', 'format', 'len', 'match', 'rep', 'sub'}},
    math = {fields = {'abs', 'ceil', 'floor', 'max', 'min'}},
    table = {fields = {'insert'}},
    'KEYS', 'ARGV', 'ipairs', 'select', 'tonumber', 'tostring', 'type', 'unpack',
  },
}
max_line_length = 120

-- Each file may use the functions and constants of those that it includes, and no others. Files in
-- lua/lib define functions for other files.
local function lines(file)
  local f = assert(io.open(file))
  local text = f:read('*a')
  f:close()
  return text:gmatch('[^\n]+')
end

local function provide(file, functions)
  for line in lines(file) do
    local name = line:match('^local function (%w+)') or line:match('^local (%w+) = ')
    local included = line:match('^%s*%-%- include: (%w+)$')
    if name then
      functions[#functions + 1] = name
    elseif included then
      provide('lua/lib/' .. included .. '.lua', functions)
    end
  end
  return functions
end

local lfs = require('lfs')
for _, dir in ipairs({'lua/', 'lua/lib/'}) do
  for name in lfs.dir(dir) do
    if name:match('%.lua$') then
      local file = dir .. name
      local functions = provide(file, {})
      files[file].read_globals = functions
      if dir == 'lua/lib/' then
        files[file].ignore = {}
        for i, f in ipairs(functions) do files[file].ignore[i] = '211/' .. f end
      end
    end
  end
end
