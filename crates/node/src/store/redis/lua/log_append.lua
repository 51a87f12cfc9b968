-- Appends to the capped invalidation log. KEYS[1] stream; an entry's id is "<sequence>-<log id>".
-- ARGV: length max, log id for a new log, scope. Returns 1 where a foreign value was deleted.
local last, deleted = newest_entry(KEYS[1])
local sequence, log = 1, ARGV[2]
if last then
  local at, id = string.match(last[1], '^(%d+)-(%d+)$')
  sequence, log = tonumber(at) + 1, id
end
local id = string.format('%.0f', sequence) .. '-' .. log
redis.call('XADD', KEYS[1], 'MAXLEN', ARGV[1], id, 's', ARGV[3])
return deleted
