//! The store that nodes share: entries, leases and invalidations, behind the engine's port `Store`.
//!
//! There are two implementations of one protocol, which `hopcache_core::lease::slot` defines: [`memory::MemoryStore`] in
//! the process, for `dev`, and [`redis::RedisStore`]. One contract suite (`tests/store_contract.rs`) runs on both. The
//! engine decides what to store and which node to ask. The store never reads a result: bodies are bytes.

mod log;
pub mod memory;
pub mod problem;
pub mod redis;
