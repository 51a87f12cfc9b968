-- Keeps marks of written databases, or the later ones that are there (crates/core/src/written.rs). KEYS[1] the marks, one a
-- line; KEYS[2] the nodes that listen, each with the end of its lease. ARGV: most lines, then records. Returns the nodes and
-- how long each may still serve, in milliseconds; and 1 where there was no room for a record.
local kept, count = {}, 0
for line in string.gmatch(redis.call('GET', KEYS[1]) or '', '[^\n]+') do
  kept[string.sub(line, 1, 16)] = line
  count = count + 1
end
local full = 0
for place = 2, #ARGV do
  local record = ARGV[place]
  local name = string.sub(record, 1, 16)
  local known = kept[name]
  if not known and count >= tonumber(ARGV[1]) then
    full = 1
  elseif not known or string.sub(known, 18, 49) ~= string.sub(record, 18, 49) or string.sub(known, 51) < string.sub(record, 51) then
    if not known then count = count + 1 end
    kept[name] = record
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
return { nodes, left, full }
