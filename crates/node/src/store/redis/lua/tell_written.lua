-- Keeps marks of written databases, or the later ones that are there (crates/core/src/written/board.rs). KEYS[1] the marks,
-- one a line; KEYS[2] the nodes that listen, each with the end of its lease. ARGV: most names, most lines, then records.
-- Returns the nodes and how long each may still serve, in milliseconds; 1 where there was no room for a record; and where ids
-- are counted anew since the records, the latest line of each such name, as one of everything.
-- A line: name (16), space, database (32), space, epoch and id (32), and perhaps a space and a tag (16).
local kept, count = {}, 0
local databases, names = {}, 0
local function keep(line)
  local name = string.sub(line, 1, 16)
  local place = name .. string.sub(line, 83)
  if not databases[name] then names = names + 1 end
  databases[name] = string.sub(line, 18, 49)
  if not kept[place] then count = count + 1 end
  kept[place] = line
end
local function rank(line) return string.sub(line, 51, 82) end
for line in string.gmatch(redis.call('GET', KEYS[1]) or '', '[^\n]+') do keep(line) end
local function drop(name, is_dropped)
  for place, line in pairs(kept) do
    if string.sub(place, 1, 16) == name and is_dropped(line) then
      kept[place] = nil
      count = count - 1
    end
  end
end
local full = 0
for at = 3, #ARGV do
  local record = ARGV[at]
  local name = string.sub(record, 1, 16)
  if databases[name] and databases[name] ~= string.sub(record, 18, 49) then
    drop(name, function() return true end)
  end
  local place = name .. string.sub(record, 83)
  local function is_known()
    local all, known = kept[name], kept[place]
    return (all and rank(all) >= rank(record)) or (known and rank(known) >= rank(record))
  end
  if not databases[name] and names >= tonumber(ARGV[1]) then
    full = 1
  elseif not is_known() then
    if #record == 82 then drop(name, function(line) return rank(line) <= rank(record) end) end
    if not kept[place] and count >= tonumber(ARGV[2]) then
      -- No room: the latest line of each name marks everything, and is the only one.
      local latest = {}
      for _, line in pairs(kept) do
        local each = string.sub(line, 1, 16)
        if not latest[each] or rank(latest[each]) < rank(line) then latest[each] = string.sub(line, 1, 82) end
      end
      kept, count = {}, 0
      for _, line in pairs(latest) do keep(line) end
    end
    -- Again: a tag's later mark may mark everything now.
    if not is_known() then keep(record) end
  end
end
local lines = {}
for _, line in pairs(kept) do lines[#lines + 1] = line end
table.sort(lines)
redis.call('SET', KEYS[1], table.concat(lines, '\n'))
local nodes, left = {}, {}
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
for ends, node in string.gmatch(redis.call('GET', KEYS[2]) or '', '(%d+) ([^\n]+)') do
  if tonumber(ends) > now then
    nodes[#nodes + 1] = node
    left[#left + 1] = tonumber(ends) - now
  end
end
-- The earliest epoch that was told for each name and database.
local told = {}
for at = 3, #ARGV do
  local database, epoch = string.sub(ARGV[at], 1, 49), string.sub(ARGV[at], 51, 66)
  if not told[database] or told[database] > epoch then told[database] = epoch end
end
local latest = {}
for _, line in pairs(kept) do
  local name, epoch = string.sub(line, 1, 16), told[string.sub(line, 1, 49)]
  local is_anew = epoch and string.sub(line, 51, 66) > epoch
  if is_anew and (not latest[name] or rank(latest[name]) < rank(line)) then
    latest[name] = string.sub(line, 1, 82)
  end
end
local anew = {}
for _, line in pairs(latest) do anew[#anew + 1] = line end
table.sort(anew)
return { nodes, left, full, anew }
