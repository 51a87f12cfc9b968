//! How `node.memory` is split between the copies and a store in the same process, so that both together stay within it
//! (I9).

use hopcache_config::{Settings, StoreUri};

/// The part of `node.memory` for copies: all of it, or half when the store is in this process too.
#[must_use]
pub fn copies_bytes(settings: &Settings) -> u64 {
    match settings.store {
        StoreUri::Memory => settings.node.memory_bytes / 2,
        StoreUri::Redis(_) => settings.node.memory_bytes,
    }
}

/// The part of `node.memory` for a store in this process: the rest beside the copies.
#[must_use]
pub fn store_bytes(settings: &Settings) -> usize {
    usize::try_from(settings.node.memory_bytes - copies_bytes(settings)).unwrap_or(usize::MAX)
}
