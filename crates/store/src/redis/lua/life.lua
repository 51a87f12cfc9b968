-- Front of all scripts but the ping: the life of this server's content (crates/core/src/lease/life.rs), as 16 hex digits. A
-- Redis that starts, or is promoted, has a new replication id. Whatever was written in another life counts as absent.
-- A server that does not name it has one life: after a restore its old content counts as present (the node warns at the connect).
local LIFE = string.sub(string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)') or '', 1, 16)
if #LIFE < 16 then LIFE = '0000000000000000' end

