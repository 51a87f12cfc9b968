-- What the invalidation log says after a place. KEYS[1] stream.
-- ARGV: log id, sequence, page length, log id for a new log. Returns {gap, log id, sequence, scopes, 1
-- where a foreign value was deleted}.
local last, deleted = newest_entry(KEYS[1])
if not last then
  -- A place to stand on, or every poll of a quiet log would look like a lost one.
  redis.call('XADD', KEYS[1], '1-' .. ARGV[4], 's', '')
  return { 1, ARGV[4], '1', {}, deleted }
end
local newest, log = string.match(last[1], '^(%d+)-(%d+)$')
local first = redis.call('XRANGE', KEYS[1], '-', '+', 'COUNT', 1)[1]
local oldest = tonumber(string.match(first[1], '^(%d+)-'))
local from = tonumber(ARGV[2])
if log ~= ARGV[1] or from + 1 < oldest or from > tonumber(newest) then
  return { 1, log, newest, {}, 0 }
end
local start = string.format('%.0f', from + 1)
local scopes, at = {}, ARGV[2]
for _, item in ipairs(redis.call('XRANGE', KEYS[1], start, '+', 'COUNT', ARGV[3])) do
  at = string.match(item[1], '^(%d+)-')
  scopes[#scopes + 1] = item[2][2]
end
return { 0, log, at, scopes, 0 }
