-- The renewal of many leases, and of the memory of their last tokens. Renewal is most of what held
-- locks cost a server.

-- rewrite has a fence key name nobody if the lease ends by itself, and writes a note: behind a
-- space; empty to leave it as it is.
local function rewrite(fence, alone, note)
  local text = redis.pcall('get', fence)
  local token, id, old
  if type(text) == 'string' then token, id, old = string.match(text, '^(%d+) (%S+)(.*)$') end
  if not token or id == 'readers' then return end
  if note == '' then note = old elseif note == ' ' then note = '' end
  local new = token .. ' ' .. (alone and '-' or id) .. note
  if new ~= text then redis.call('set', fence, new, 'keepttl') end
end

-- renewAll renews the leases of a script whose KEYS and ARGV are as in renew.lua. prolong(key, id,
-- ends) has a lease end then (ms), and returns whether there is the hold.
local function renewAll(prolong)
  local gone, n = {}, #KEYS == 1 and 1 or #KEYS / 2
  local run, left, ends, lease = n - 3, 0, nil, nil
  for i = 1, n do
    if left == 0 then
      run = run + 4
      left, lease = tonumber(ARGV[run]), tonumber(ARGV[run + 1])
      ends = now + lease
    end
    left = left - 1
    local fence = KEYS[n + i]
    if not prolong(KEYS[i], ARGV[i], ends) then
      gone[#gone + 1] = i
    elseif fence then
      local alone, note = ARGV[run + 2] == '1', ARGV[run + 3]
      if alone or note ~= '' then rewrite(fence, alone, note) end
      local lives = redis.pcall('pttl', fence)
      if type(lives) == 'number' and lives > 0 and lives < lease + 60000 then
        redis.call('pexpireat', fence, ends + lease + 60000)
      end
    end
  end
  return gone
end
