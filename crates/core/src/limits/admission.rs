//! Bounds of what a node remembers to decide which results go into the store ([`crate::admission`]).

/// Largest setting of the room in the store for keys that were run once: in practice without a bound.
pub const STORE_RUN_ONCE_BYTES_MAX: u64 = 1 << 40;
/// Keys of one generation; then the next one begins.
pub const ADMISSION_SEEN_KEYS_MAX: u32 = 1 << 19;
/// Keys of a generation's filters, in the order in which they are made: the last one makes the sum the most.
pub const ADMISSION_SEEN_FILTER_KEYS: [u32; 4] =
    [1 << 12, 1 << 14, 1 << 16, ADMISSION_SEEN_KEYS_MAX - (21 << 12)];
/// Bits of a filter for each of its keys: 1.4 MiB for a full generation. With [`ADMISSION_SEEN_PROBES`], a full filter takes one
/// key in five thousand for another (Bloom 1970), and four of them one in a thousand. Its entry is stored needlessly.
pub const ADMISSION_SEEN_BITS_PER_KEY: usize = 22;
/// Bits that each key sets.
pub const ADMISSION_SEEN_PROBES: usize = 6;
/// A run that takes longer than this pays less for its room, in proportion.
pub const ADMISSION_CHEAP_RUN_MS: u64 = 10;
/// The longest run pays for one byte in so many. Neo4j bounds how many of such runs there are, not how large they are.
pub const ADMISSION_DISCOUNT_MAX: u64 = 10;
