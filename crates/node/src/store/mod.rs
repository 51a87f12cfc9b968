//! What nodes share: entries, leases and invalidations, behind the engine's port `Store`.
//!
//! Two implementations of one protocol (`hopcache_core::lease::slot` is its meaning):
//! [`memory::MemoryStore`] inside a process, for `dev`, and [`redis::RedisStore`]. One contract suite
//! (`tests/store_contract.rs`) runs on both. Nothing here decides what to store or whom to ask: that
//! is the engine. Nothing here reads a result: bodies are bytes.

mod log;
pub mod memory;
pub mod redis;
pub mod trouble;
