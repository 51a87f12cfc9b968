-- Value, lease or busy; with a dead holder's token, that lease counts as free (steal).
-- ARGV: linger, bytes_max, nonce, holder, database, lease_ms, age_max (-1: none), dead counter, dead nonce, proved_max.
local bytes_max, age_max, proved_max = tonumber(ARGV[2]), tonumber(ARGV[7]), tonumber(ARGV[10])
local entry = read_entry()
if entry and (entry.age < entry.soft or entry.age < proved_max) and (age_max < 0 or entry.age <= age_max) then
  return answer('value', nil, entry, bytes_max)
end
local kind, lease = 'free', read_lease()
if lease then
  if lease.left <= 0 then
    kind = 'expired'
  elseif holds(lease, ARGV[8], ARGV[9]) then
    kind = 'stolen'
  else
    return answer('busy', lease, entry, bytes_max)
  end
end
local now = redis.call('TIME')
local counter = tonumber(now[1]) * 1000000 + tonumber(now[2])
for _, last in ipairs({ entry and entry.counter or 0, lease and tonumber(lease.counter) or 0 }) do
  if last < COUNTER_MAX then counter = math.max(counter, last + 1) end
end
local granted = { counter = string.format('%.0f', counter), nonce = ARGV[3], holder = ARGV[4] }
granted.left = tonumber(ARGV[6])
local record = table.concat({ LIFE, granted.counter, granted.nonce, ARGV[5], granted.holder }, ':')
redis.call('SET', KEYS[2], record, 'PX', granted.left + LINGER_MS)
return answer(kind, granted, entry, bytes_max)
