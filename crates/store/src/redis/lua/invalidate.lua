-- Removes entry and lease; with a database, each of them if it is of that database (what cannot be
-- read is of every database). ARGV: linger, database as 16 hex digits or ''. Returns entries removed; what another
-- life has written is removed and counts as none.
local only = ARGV[2]
local lease = read_lease()
if only == '' or not lease or lease.database == only then redis.call('DEL', KEYS[2]) end
local is_restored = redis.call('GETRANGE', KEYS[1], 0, #LIFE - 1) ~= LIFE
local head = read_head()
if only ~= '' and head then
  local tag = string.gsub(string.sub(head, 61, 68), '.', function(byte)
    return string.format('%02x', string.byte(byte))
  end)
  if tag ~= only then return 0 end
end
local removed = redis.call('DEL', KEYS[1])
if is_restored then return 0 end
return removed
