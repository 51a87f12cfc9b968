-- What the invalidation log says after a place (crates/core/src/lease/log.rs). KEYS[1] stream.
-- ARGV: the place's life, sequence and tag, page length, a tag for a new log. Returns {gap, life, sequence, tag, scopes, 1
-- where a foreign value was deleted}.
local last, deleted = newest_entry(KEYS[1])
if not last then
  -- A place to stand on, or every poll of a quiet log would look like a lost one.
  redis.call('XADD', KEYS[1], '1-' .. ARGV[5], 's', '')
  return { 1, LIFE, '1', ARGV[5], {}, deleted }
end
local at = ARGV[2] .. '-' .. ARGV[3]
if ARGV[1] ~= LIFE or #redis.call('XRANGE', KEYS[1], at, at) == 0 then
  local newest, tag = string.match(last[1], '^(%d+)-(%d+)$')
  return { 1, LIFE, newest, tag, {}, 0 }
end
local scopes = {}
for _, item in ipairs(redis.call('XRANGE', KEYS[1], '(' .. at, '+', 'COUNT', ARGV[4])) do
  at = item[1]
  scopes[#scopes + 1] = item[2][2]
end
local sequence, tag = string.match(at, '^(%d+)-(%d+)$')
return { 0, LIFE, sequence, tag, scopes, 0 }
