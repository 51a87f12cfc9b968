-- Keeps marks of written databases, or the later ones that are there (crates/core/src/write_position/board.rs), and writes the events
-- that they are the marks of to the log. KEYS[1] the marks, one a line; KEYS[2] the nodes that listen, each with the end of its lease;
-- KEYS[3] the log's beginning in microseconds, the number of its next piece, and its bytes, then its floor: for each database the latest
-- record of what was dropped, or was there before the log, one a line; KEYS[4] its pieces; KEYS[5] the reports. A piece begins with three digits,
-- and as many lines of the latest records of what is in it, without line ends. ARGV: most names, most lines, the new piece or '', most pieces,
-- most bytes, then records.
-- Returns the nodes and how long each may still serve, in milliseconds; 1 where there was no room for a record; and where ids
-- are counted anew since the records, the latest line of each such database, as one of everything.
-- A line: name (16), space, database (32), space, epoch and id (32), and perhaps a space and a tag (16).
-- Of two records the first 49 characters say whether they are of one database by one name.
local kept, count = {}, 0
local databases, known = {}, 0
local function database_of(line) return string.sub(line, 1, 49) end
local function place_of(line) return database_of(line) .. string.sub(line, 83) end
local function keep(line)
  local place = place_of(line)
  if not databases[database_of(line)] then known = known + 1 end
  databases[database_of(line)] = true
  if not kept[place] then count = count + 1 end
  kept[place] = line
end
local function rank(line) return string.sub(line, 51, 82) end
local before = redis.call('GET', KEYS[1])
if not before then
  -- The reports go with the marks (hear_written.lua): after this telling a look would find marks, and would not know that some are gone.
  local reports = redis.call('GET', KEYS[5])
  local head = reports and string.match(reports, '^%x+ %d+')
  if head then redis.call('SET', KEYS[5], head .. '\n') end
  before = ''
end
for line in string.gmatch(before, '[^\n]+') do keep(line) end
local function drop(is_dropped)
  for place, line in pairs(kept) do
    if is_dropped(line) then
      kept[place] = nil
      count = count - 1
    end
  end
end
local full = 0
-- Where the node tells the life, that is no record (redis/life.rs).
local last = string.match(ARGV[#ARGV], '^life:%x+$') and #ARGV - 1 or #ARGV
for at = 6, last do
  local record = ARGV[at]
  local database, place = database_of(record), place_of(record)
  local function is_known()
    local all, own = kept[database], kept[place]
    return (all and rank(all) >= rank(record)) or (own and rank(own) >= rank(record))
  end
  if not databases[database] and known >= tonumber(ARGV[1]) then
    -- It takes the place of other databases that have its name.
    local name = string.sub(record, 1, 16)
    drop(function(line) return string.sub(line, 1, 16) == name end)
    for each in pairs(databases) do
      if string.sub(each, 1, 16) == name then
        databases[each] = nil
        known = known - 1
      end
    end
  end
  if not databases[database] and known >= tonumber(ARGV[1]) then
    full = 1
  elseif not is_known() then
    if #record == 82 then
      drop(function(line) return database_of(line) == database and rank(line) <= rank(record) end)
    end
    if not kept[place] and count >= tonumber(ARGV[2]) then
      -- No room: the latest line of each database marks everything, and is the only one.
      local latest = {}
      for _, line in pairs(kept) do
        local each = database_of(line)
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
if #ARGV[3] > 0 then
  local log, floor = redis.call('GET', KEYS[3]) or '', {}
  local began, next, bytes = string.match(log, '^(%d+) (%d+) (%d+)')
  local function raise(line)
    local each = database_of(line)
    if not floor[each] or rank(floor[each]) < rank(line) then floor[each] = string.sub(line, 1, 82) end
  end
  local function raise_all(text)
    for line in string.gmatch(text, '[^\n]+') do raise(line) end
  end
  raise_all(string.match(log, '\n(.*)$') or '')
  local pieces = redis.call('LLEN', KEYS[4])
  -- One of the two keys is gone: what was in the log is not known any more.
  if not began or (pieces == 0 and next ~= '0') then
    redis.call('DEL', KEYS[4])
    began, next, bytes = time[1] .. string.format('%06d', tonumber(time[2])), '0', '0'
    raise_all(before)
  end
  pieces = redis.call('RPUSH', KEYS[4], ARGV[3])
  bytes = tonumber(bytes) + #ARGV[3]
  while pieces > tonumber(ARGV[4]) or (bytes > tonumber(ARGV[5]) and pieces > 1) do
    local dropped = redis.call('LPOP', KEYS[4])
    bytes, pieces = bytes - #dropped, pieces - 1
    local latest = tonumber(string.sub(dropped, 1, 3)) or 0
    for at = 0, latest - 1 do raise(string.sub(dropped, 4 + 82 * at, 85 + 82 * at)) end
    -- A foreign piece: nothing is known of it.
    if latest == 0 then raise_all(redis.call('GET', KEYS[1])) end
  end
  local head = { string.format('%s %.0f %.0f', began, tonumber(next) + 1, bytes) }
  for each, line in pairs(floor) do
    if databases[each] then head[#head + 1] = line end
  end
  redis.call('SET', KEYS[3], table.concat(head, '\n'))
end
for ends, node in string.gmatch(redis.call('GET', KEYS[2]) or '', '(%d+) ([^\n]+)') do
  if tonumber(ends) > now then
    nodes[#nodes + 1] = node
    left[#left + 1] = tonumber(ends) - now
  end
end
-- The earliest epoch that was told of each database.
local told = {}
for at = 6, last do
  local database, epoch = database_of(ARGV[at]), string.sub(ARGV[at], 51, 66)
  if not told[database] or told[database] > epoch then told[database] = epoch end
end
local latest = {}
for _, line in pairs(kept) do
  local database = database_of(line)
  local epoch = told[database]
  local is_anew = epoch and string.sub(line, 51, 66) > epoch
  if is_anew and (not latest[database] or rank(latest[database]) < rank(line)) then
    latest[database] = string.sub(line, 1, 82)
  end
end
local anew = {}
for _, line in pairs(latest) do anew[#anew + 1] = line end
table.sort(anew)
return { nodes, left, full, anew }
