-- The marks of written databases, and a lease for the node that asks. KEYS[1] the marks; KEYS[2] the nodes that listen. ARGV:
-- the node, the length of its lease, most nodes. Returns the marks.
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local lines = { string.format('%.0f', now + tonumber(ARGV[2])) .. ' ' .. ARGV[1] }
for ends, node in string.gmatch(redis.call('GET', KEYS[2]) or '', '(%d+) ([^\n]+)') do
  if node ~= ARGV[1] and tonumber(ends) > now and #lines < tonumber(ARGV[3]) then
    lines[#lines + 1] = ends .. ' ' .. node
  end
end
redis.call('SET', KEYS[2], table.concat(lines, '\n'))
return redis.call('GET', KEYS[1]) or ''
