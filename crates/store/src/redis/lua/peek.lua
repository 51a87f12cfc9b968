-- Entry and current lease, changing nothing. ARGV: linger, bytes_max.
local lease = read_lease()
local what = 'free'
if lease and lease.left > 0 then what = 'busy' else lease = nil end
return answer(what, lease, read_entry(), tonumber(ARGV[2]))
