-- Appends to the capped invalidation log. KEYS[1] stream; a record's id is "<sequence>-<its random tag>".
-- ARGV: length max, tag, scope. Returns 1 where a foreign value was deleted.
local last, deleted = newest_entry(KEYS[1])
local sequence = 1
if last then sequence = tonumber(string.match(last[1], '^(%d+)-')) + 1 end
local id = string.format('%.0f', sequence) .. '-' .. ARGV[2]
-- One more than a reader may be behind by: the record on which such a reader stands.
redis.call('XADD', KEYS[1], 'MAXLEN', ARGV[1] + 1, id, 's', ARGV[3])
return deleted
