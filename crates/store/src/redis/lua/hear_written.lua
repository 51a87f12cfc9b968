-- A look: the marks of written databases, the last writes, and the reports of watchers (crates/core/src/proof.rs). The node that asks
-- gets a lease.
-- KEYS[1] the marks; KEYS[2] the nodes that listen; KEYS[3] the reports: in the first line the life of the content and the
-- number of the last look, then one a line; KEYS[4] and KEYS[5] the log (tell_written.lua). ARGV: the node, the length of its lease, most
-- nodes, and the place in the log up to which the node has read: the life and the beginning of the log, and the number of a piece, or ''.
-- Returns the marks, the number of this look, and the reports; the life and the beginning of the log, the number of its next piece, 1 if
-- pieces since the node's place may lack, and those pieces. For '': all pieces, and the log's floor.
-- Reports of another life count as absent: their looks are of another numbering. So do reports where the marks are gone (evicted, deleted):
-- a node that starts would take a report for word of what no mark tells it. So the key of the marks is there from the first look on.
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local lines = { string.format('%.0f', now + tonumber(ARGV[2])) .. ' ' .. ARGV[1] }
for ends, node in string.gmatch(redis.call('GET', KEYS[2]) or '', '(%d+) ([^\n]+)') do
  if node ~= ARGV[1] and tonumber(ends) > now and #lines < tonumber(ARGV[3]) then
    lines[#lines + 1] = ends .. ' ' .. node
  end
end
redis.call('SET', KEYS[2], table.concat(lines, '\n'))
local marks = redis.call('GET', KEYS[1])
local kept = redis.call('GET', KEYS[3]) or ''
local life, look = string.match(kept, '^(%x+) (%d+)')
local reports = ''
if life == LIFE then
  reports = string.match(kept, '\n(.*)$') or ''
else
  look = '0'
end
if not marks then
  marks, reports = '', ''
  redis.call('SET', KEYS[1], marks)
end
look = string.format('%.0f', tonumber(look) + 1)
redis.call('SET', KEYS[3], LIFE .. ' ' .. look .. '\n' .. reports)
local log = redis.call('GET', KEYS[4]) or ''
local began, next = string.match(log, '^(%d+) (%d+) %d+')
local floor = string.match(log, '\n(.*)$') or ''
local pieces = redis.call('LLEN', KEYS[5])
if not began or (pieces == 0 and next ~= '0') then
  redis.call('DEL', KEYS[5])
  began, next, pieces = time[1] .. string.format('%06d', tonumber(time[2])), '0', 0
  -- The marks may be of writes that no piece is there of.
  local latest, lines = {}, {}
  for line in string.gmatch(marks, '[^\n]+') do
    local each = string.sub(line, 1, 49)
    local known = latest[each]
    if not known or string.sub(known, 51) < string.sub(line, 51, 82) then latest[each] = string.sub(line, 1, 82) end
  end
  for _, line in pairs(latest) do lines[#lines + 1] = line end
  floor = table.concat(lines, '\n')
  redis.call('SET', KEYS[4], began .. ' 0 0\n' .. floor)
end
local missed, from, since = 1, pieces, {}
if ARGV[4] == '' then missed, from = 0, 0 end
if ARGV[4] == LIFE and ARGV[5] == began then
  local skipped = tonumber(ARGV[6]) - (tonumber(next) - pieces)
  if skipped >= 0 and skipped <= pieces then missed, from = 0, skipped end
end
if from < pieces then since = redis.call('LRANGE', KEYS[5], from, -1) end
return { marks, look, reports, LIFE, began, next, missed, since, ARGV[4] == '' and floor or '' }
