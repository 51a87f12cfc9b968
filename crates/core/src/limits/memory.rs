//! Bounds of a node's memory of copies, and of the requests that it remembers beside them.

/// Share of `node.memory`, in percent, above which a principal's new copies replace its own older ones once memory is
/// full. So a principal that asks for ever new keys evicts nobody else (F37).
pub const MEMORY_SHARE_PERCENT_MAX: u64 = 50;
/// Share of `node.memory`, in percent, from which on memory counts as full.
pub const MEMORY_FULL_PERCENT: u64 = 95;
/// The memory of a copy beside its bodies: its struct with its count (160), its place in memory (key, slab and table, about 85),
/// its place in its principal's account (12), its share in what it depends on (8), and a part of what the allocator cannot use
/// between such. Measured: `docs/benchmarks/2026-11-26-small-entries`, then without those 8 and with a struct of 192.
pub const COPY_OVERHEAD_BYTES: usize = 328;
/// The memory of a principal's account beside the places of its copies. Its first copy is weighed with it. With the table as empty as
/// it gets an entry has 185 bytes; then the first chunk (32), and three more places (36).
pub const PRINCIPAL_OVERHEAD_BYTES: u32 = 256;
/// The memory of each body of a copy that is shared with its readers, beside its bytes and the allocator's rounding: a
/// reference count (32), and the list of renderings (96).
pub const BODY_OVERHEAD_BYTES: usize = 128;
/// A stored form up to this size is not shared with its readers. A rendering of it is made in microseconds, so the copy keeps none
/// before somebody asks again.
pub const SMALL_FORM_BYTES_MAX: usize = 4 << 10;
/// What a copy usually takes. Memory remembers half as many evicted keys as it has room for such copies, about 90 bytes each
/// beside its budget: 4 % of it. Smaller ones are remembered for a smaller part of their number.
pub const MEMORY_COPY_BYTES_USUAL: usize = 1 << 10;
/// Ranges of transactions that copies share: a database has one until its next write.
pub const SHARED_RANGES_MAX: usize = 256;
/// Lists of tags that copies share: a pattern has one. Each has at most 8 bytes for each tag of a read.
pub const SHARED_READS_MAX: usize = 1_024;
/// Copies of one shard of memory, in bytes. A shard holds any copy that may be kept, and has a lock of its own.
pub const MEMORY_SHARD_BYTES: u64 = 64 << 20;
/// Most shards.
pub const MEMORY_SHARDS_MAX: usize = 64;
/// Between two sweeps of memory, which take some 50 ns for each copy: at a million copies a half percent of a core.
pub const MEMORY_SWEEP_MS: u64 = 10_000;

/// Statements with a remembered reading, so that their texts are lexed once and kept once.
pub const KNOWN_TEXTS_MAX: usize = 1_024;
/// Longest such text, in bytes. It is kept twice, as it came and in its normal form: together at most 8 MiB.
pub const KNOWN_TEXT_BYTES_MAX: usize = 4 << 10;
/// Raw requests with a remembered parsed form (the shortest way to a hit).
pub const PARSED_REQUESTS_MAX: usize = 16_384;
/// Largest raw request that is remembered, in bytes.
pub const PARSED_REQUEST_BYTES_MAX: usize = 1 << 10;
/// Bytes of all remembered requests of one front, with what was read from them.
pub const PARSED_REQUEST_ROOM_BYTES: usize = 16 << 20;
/// Places that the hand comes by for one request without room. With 16,384 places it has been around after some 250 such requests.
pub const PARSED_REQUEST_HAND_PLACES: usize = 64;
