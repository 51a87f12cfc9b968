-- Keeps a watcher's report, unless there is one of a later look by the same name (crates/core/src/written/board.rs). KEYS[1] the
-- reports. ARGV: most names, the report: name (16), space, number of the look (16), and the rest.
local kept = redis.call('GET', KEYS[1]) or ''
local life, look = string.match(kept, '^(%x+) (%d+)')
-- Its look was of another life, or of content that was lost since.
if life ~= LIFE or tonumber(string.sub(ARGV[2], 18, 33), 16) > tonumber(look) then return 0 end
local lines, is_known, is_later = {}, false, false
local name = string.sub(ARGV[2], 1, 16)
for line in string.gmatch(string.match(kept, '\n(.*)$') or '', '[^\n]+') do
  if string.sub(line, 1, 16) ~= name then
    lines[#lines + 1] = line
  else
    is_known = true
    is_later = string.sub(line, 18, 33) > string.sub(ARGV[2], 18, 33)
  end
end
if is_later or (not is_known and #lines >= tonumber(ARGV[1])) then return 0 end
lines[#lines + 1] = ARGV[2]
redis.call('SET', KEYS[1], LIFE .. ' ' .. look .. '\n' .. table.concat(lines, '\n'))
return 1
