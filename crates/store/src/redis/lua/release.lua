-- Ends the current lease. ARGV: linger, counter, nonce. Returns 1 when it was ours.
if not holds(read_lease(), ARGV[2], ARGV[3]) then return 0 end
return redis.call('DEL', KEYS[2])
