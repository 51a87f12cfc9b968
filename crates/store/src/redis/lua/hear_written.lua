-- A look: the marks of written databases, and the reports of watchers (crates/core/src/proof.rs). The node that asks gets a lease.
-- KEYS[1] the marks; KEYS[2] the nodes that listen; KEYS[3] the reports: in the first line the life of the content and the
-- number of the last look, then one a line. ARGV: the node, the length of its lease, most nodes. Returns the marks, the number
-- of this look, and the reports. Reports of another life count as absent: their looks are of another numbering.
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local lines = { string.format('%.0f', now + tonumber(ARGV[2])) .. ' ' .. ARGV[1] }
for ends, node in string.gmatch(redis.call('GET', KEYS[2]) or '', '(%d+) ([^\n]+)') do
  if node ~= ARGV[1] and tonumber(ends) > now and #lines < tonumber(ARGV[3]) then
    lines[#lines + 1] = ends .. ' ' .. node
  end
end
redis.call('SET', KEYS[2], table.concat(lines, '\n'))
local kept = redis.call('GET', KEYS[3]) or ''
local life, look = string.match(kept, '^(%x+) (%d+)')
local reports = ''
if life == LIFE then
  reports = string.match(kept, '\n(.*)$') or ''
else
  look = '0'
end
look = string.format('%.0f', tonumber(look) + 1)
redis.call('SET', KEYS[3], LIFE .. ' ' .. look .. '\n' .. reports)
return { redis.call('GET', KEYS[1]) or '', look, reports }
