-- beside returns the name of a key or channel beside the queue of a lock, by its prefix. The queue of
-- a name with braces has one colon more at its end.

local function beside(queue, prefix)
  return prefix .. string.match(queue, '(:.-):?$')
end
