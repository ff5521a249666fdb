-- Scripts run in the Lua of Redis: without files, processes and modules. Run luacheck in
-- the directory of this file.
std = 'redis'
stds.redis = {
  read_globals = {
    redis = {fields = {'call', 'error_reply', 'pcall'}},
    string = {fields = {'find', 'format', 'len', 'match', 'rep', 'sub'}},
    math = {fields = {'abs', 'ceil', 'floor', 'max', 'min'}},
    table = {fields = {'insert'}},
    'publish', 'numsub', 'counted', -- see PubSub in internal/wire/scripts.go
    'KEYS', 'ARGV', 'ipairs', 'select', 'tonumber', 'tostring', 'type', 'unpack',
  },
}
max_line_length = 120

-- A script may use the functions and constants of the files in lua/lib that it names, and each of those what stands
-- before it there. They define functions that not every script uses.
local function lines(file)
  local f = assert(io.open(file))
  local text = f:read('*a')
  f:close()
  return text:gmatch('[^\n]+')
end

local function functionsOf(name)
  local functions = {}
  for line in lines('lua/lib/' .. name .. '.lua') do
    functions[#functions + 1] = line:match('^local function (%w+)') or line:match('^local (%w+) = ')
    for constant in (line:match('^local (%w+, [%w, ]+) = ') or ''):gmatch('%w+') do functions[#functions + 1] = constant end
  end
  return functions
end

local function allow(file, functions)
  local all = files[file].read_globals or {}
  for _, f in ipairs(functions) do all[#all + 1] = f end
  files[file].read_globals = all
end

local lfs = require('lfs')
for file in lfs.dir('lua') do
  if file:match('%.lua$') then
    local before = {}
    for line in lines('lua/' .. file) do
      for name in (line:match('^%-%- needs: (.*)$') or ''):gmatch('%w+') do
        for _, other in ipairs(before) do allow('lua/lib/' .. name .. '.lua', functionsOf(other)) end
        before[#before + 1] = name
        allow('lua/' .. file, functionsOf(name))
        files['lua/lib/' .. name .. '.lua'].ignore = {'211/.*'}
      end
    end
  end
end
