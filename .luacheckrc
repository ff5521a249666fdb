-- Scripts run in the Lua of Redis: without files, processes and modules. Run luacheck in
-- the directory of this file.
std = 'redis'
stds.redis = {
  read_globals = {
    redis = {fields = {'call', 'error_reply', 'pcall'}},
    string = {fields = {'find', 'format', 'len', 'match', 'rep', 'sub'}},
    math = {fields = {'abs', 'ceil', 'floor', 'huge', 'max', 'min'}},
    table = {fields = {'concat'}},
    'KEYS', 'ARGV', 'ipairs', 'pairs', 'select', 'tonumber', 'tostring', 'type', 'unpack',
  },
}
max_line_length = 100

-- A script may use what stands at the beginning of a line in the files that it names, and each of
-- those what is in the files before it. They define functions that not every script uses.
local shared = {'token', 'core', 'leases', 'phase', 'queue', 'readers', 'permits', 'poll'}

local function lines(file)
  local f = assert(io.open(file))
  local text = f:read('*a')
  f:close()
  return text:gmatch('[^\n]+')
end

local function functionsOf(name)
  local functions = {}
  for line in lines('lua/' .. name .. '.lua') do
    functions[#functions + 1] = line:match('^local function (%w+)')
    for name in (line:match('^local (%w[%w, ]*) = ') or ''):gmatch('%w+') do functions[#functions + 1] = name end
  end
  return functions
end

local function allow(file, functions)
  local all = files[file].read_globals or {}
  for _, f in ipairs(functions) do all[#all + 1] = f end
  files[file].read_globals = all
end

for i, name in ipairs(shared) do
  files['lua/' .. name .. '.lua'].ignore = {'211/.*'}
  for k = 1, i - 1 do allow('lua/' .. name .. '.lua', functionsOf(shared[k])) end
end

local lfs = require('lfs')
for file in lfs.dir('lua') do
  if file:match('%.lua$') then
    for line in lines('lua/' .. file) do
      for name in (line:match('^%-%- needs: (.*)$') or ''):gmatch('%w+') do allow('lua/' .. file, functionsOf(name)) end
    end
  end
end
