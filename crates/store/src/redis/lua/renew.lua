-- Prolongs the current lease. ARGV: linger, counter, nonce, lease_ms. Returns 1 when prolonged.
if not holds(read_lease(), ARGV[2], ARGV[3]) then return 0 end
return redis.call('PEXPIRE', KEYS[2], tonumber(ARGV[4]) + LINGER_MS)
