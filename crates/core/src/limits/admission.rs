//! Bounds of what a node remembers to decide which results go into the store ([`crate::admission`]).

/// Largest setting of the room in the store for keys that were run once: in practice without a bound.
pub const STORE_RUN_ONCE_BYTES_MAX: u64 = 1 << 40;
/// Bits of one generation of keys that were run. Two generations of 1 MiB each are kept.
pub const ADMISSION_SEEN_BITS: usize = 1 << 23;
/// Keys of one generation; then the next one begins. With [`ADMISSION_SEEN_PROBES`] and 16 bits for each key, one key in a
/// thousand is taken for another (Bloom 1970), and its entry is stored needlessly.
pub const ADMISSION_SEEN_KEYS_MAX: u32 = 1 << 19;
/// Bits that each key sets.
pub const ADMISSION_SEEN_PROBES: usize = 6;
/// A run that takes longer than this pays less for its room, in proportion.
pub const ADMISSION_CHEAP_RUN_MS: u64 = 10;
/// The longest run pays for one byte in so many. Neo4j bounds how many of such runs there are, not how large they are.
pub const ADMISSION_DISCOUNT_MAX: u64 = 10;
