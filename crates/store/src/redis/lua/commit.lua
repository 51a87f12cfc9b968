-- Stores the entry and ends the lease, if the token is exactly the current lease's.
-- ARGV: linger, counter, nonce, life_ms, entry. Returns 1 when stored, 0 when fenced.
if not holds(read_lease(), ARGV[2], ARGV[3]) then return 0 end
if tonumber(ARGV[4]) > 0 then
  -- Before the DEL: where memory is full this fails and the lease stays, to be released by its holder.
  redis.call('SET', KEYS[1], LIFE .. ARGV[5], 'PX', ARGV[4])
else
  redis.call('DEL', KEYS[1])
end
redis.call('DEL', KEYS[2])
return 1
