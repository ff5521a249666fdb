-- beside returns the name of a key or channel beside the queue of a lock, by its prefix.

local function beside(queue, prefix)
  return prefix .. string.sub(queue, (string.find(queue, ':', 1, true)))
end
