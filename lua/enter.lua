--!df flags=allow-undeclared-keys
-- Acquires a fair lock, or queues for it. Whoever finds the lock free grants it to the
-- head of the queue.
--
--   KEYS   lock, fence, queue
--   ARGV   hold id, lease (ms)
--          1 to queue if the lock is not granted, else 0
--          expiry of the queue (ms), claim (ms)
--          prefix of the grant channels
--          PUBLISH or SPUBLISH
--          1 if the server knows all subscribers of such a channel, else 0
--   reply  as acquire.lua
--
-- Sent twice: the second finds the hold of this id, or its place in the queue. But if it
-- came after the first hold or place had ended, it would queue again, and an old grant
-- could be mistaken for a new one. So a call that queues is never sent again.

-- include: fair

local held = redis.pcall('hexists', KEYS[1], ARGV[1])
if held == 1 then
  redis.call('pexpire', KEYS[1], ARGV[2])
  return tonumber(redis.call('get', KEYS[2])) or one(KEYS[2])
end
if redis.call('exists', KEYS[1]) == 0 then
  local wait = yielded(KEYS[3])
  if wait > 0 then
    if ARGV[3] == '1' then enqueue(KEYS[3], ARGV[1], ARGV[4]) end
    return -1 - wait
  end
  local winner, token
  if redis.call('exists', KEYS[3]) == 1 then
    if ARGV[3] == '1' then enqueue(KEYS[3], ARGV[1], ARGV[4]) end
    winner, token = dispatch(KEYS[1], KEYS[2], KEYS[3], ARGV[5], ARGV[6], ARGV[7], ARGV[8], {[ARGV[1]] = true})
  end
  if not winner then
    winner, token = ARGV[1], one(KEYS[2])
    redis.call('hset', KEYS[1], ARGV[1], 1)
  end
  if winner == ARGV[1] then
    redis.call('pexpire', KEYS[1], ARGV[2])
    return token
  end
end
do -- not at the top, where it would cost time that a free lock need not take
  -- include: foreign
  local no, holder = foreign(KEYS[1], held)
  if no then return no end
  if ARGV[3] == '1' then enqueue(KEYS[3], ARGV[1], ARGV[4]) end
  return -1 - left(KEYS[1], holder)
end
