-- The database that a name leads to at an address (crates/core/src/written/known.rs). ARGV: the database that a node says, or '';
-- how long that is remembered, in ms. Returns what is remembered, or ''.
if ARGV[1] ~= '' then redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2]) end
return redis.call('GET', KEYS[1]) or ''
