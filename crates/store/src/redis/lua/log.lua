-- The newest record of the invalidation log, or none; and 1 where its key held a foreign value, which is
-- deleted: a new log begins then, and whoever followed the old one meets a gap.
local function newest_entry(key)
  local found = redis.pcall('XREVRANGE', key, '+', '-', 'COUNT', 1)
  if not found.err then
    return found[1], 0
  end
  if not string.find(found.err, 'WRONGTYPE', 1, true) then
    redis.call('XREVRANGE', key, '+', '-', 'COUNT', 1) -- Raises it, in the server's words.
  end
  redis.call('DEL', key)
  return nil, 1
end
