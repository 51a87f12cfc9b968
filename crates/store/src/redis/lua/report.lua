-- Keeps a watcher's report, unless there is one of a later look of the same database by the same name
-- (crates/core/src/written/board.rs). KEYS[1] the reports. ARGV: most databases, the report: name (16), space, number of the look (16),
-- space, database (32), and the rest.
local kept = redis.call('GET', KEYS[1]) or ''
local life, look = string.match(kept, '^(%x+) (%d+)')
local function name_of(line) return string.sub(line, 1, 16) end
local function look_of(line) return string.sub(line, 18, 33) end
local function database_of(line) return name_of(line) .. string.sub(line, 35, 66) end
-- Its look was of another life, or of content that was lost since.
if life ~= LIFE or tonumber(look_of(ARGV[2]), 16) > tonumber(look) then return 0 end
local lines, is_known, is_later = {}, false, false
for line in string.gmatch(string.match(kept, '\n(.*)$') or '', '[^\n]+') do
  if database_of(line) ~= database_of(ARGV[2]) then
    lines[#lines + 1] = line
  else
    is_known = true
    is_later = look_of(line) > look_of(ARGV[2])
  end
end
if is_later then return 0 end
if not is_known and #lines >= tonumber(ARGV[1]) then
  -- It takes the place of other databases that have its name.
  local others = {}
  for _, line in ipairs(lines) do
    if name_of(line) ~= name_of(ARGV[2]) then others[#others + 1] = line end
  end
  lines = others
end
if is_known or #lines < tonumber(ARGV[1]) then lines[#lines + 1] = ARGV[2] end
redis.call('SET', KEYS[1], LIFE .. ' ' .. look .. '\n' .. table.concat(lines, '\n'))
return 1
