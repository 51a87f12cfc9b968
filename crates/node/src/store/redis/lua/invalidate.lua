-- Removes entry and lease; with a database, each of them if it is of that database (what cannot be
-- read is of every database). ARGV: linger, database as 16 hex digits or ''. Returns entries removed.
local only = ARGV[2]
local lease = read_lease()
if only == '' or not lease or lease.database == only then redis.call('DEL', KEYS[2]) end
local removed = 0
if only ~= '' then
  local head = redis.call('GETRANGE', KEYS[1], 0, 76)
  if #head == 77 and string.sub(head, 1, 3) == 'HC\2' then
    local tag = string.gsub(string.sub(head, 61, 68), '.', function(byte)
      return string.format('%02x', string.byte(byte))
    end)
    if tag ~= only then return removed end
  end
end
return redis.call('DEL', KEYS[1])
