-- Front of all scripts: the life of this server's content (crates/core/src/lease/life.rs), as 16 hex digits. A
-- Redis that starts, or is promoted, has a new replication id. Whatever was written in another life counts as absent.
-- A server that refuses INFO here: the node has asked outside, and tells the life as the last argument (redis/life.rs).
-- A server that does not name it has one life: after a restore its old content counts as present (the node warns at the connect).
local INFO = redis.pcall('INFO', 'replication')
local TOLD = string.match(ARGV[#ARGV] or '', '^life:(%x+)$')
if type(INFO) ~= 'string' and not TOLD then return INFO end
local LIFE = type(INFO) == 'string' and string.match(INFO, 'master_replid:(%x+)') or TOLD or ''
LIFE = string.sub(LIFE, 1, 16)
if #LIFE < 16 then LIFE = '0000000000000000' end

