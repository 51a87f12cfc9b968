//! The stored form of an entry: a fixed header and the result's bytes, guarded by a keyed checksum.
