//! The client's dialect: Neo4j's HTTP Query API v2 (server 5.26), and the headers around it.
//!
//! This crate decides the meaning of request bytes ([`request`]), how a result becomes JSON ([`render`]), the body
//! and status of a failure ([`failure`]), and how our headers are read and written ([`headers`]). It never does IO,
//! never panics on bytes from outside, and knows no cache.
//!
//! Source of every rule: the answers of the server itself (5.26.12, and 2026.09.0 for what came later). `tests/differential.rs` asks
//! it again.

pub mod failure;
mod generation;
pub mod headers;
mod json;
pub mod render;
pub mod request;
mod temporal;
mod zone;

pub use generation::Generation;
pub use zone::zone_offset_s;

#[cfg(test)]
extern crate self as hopcache_queryapi;
#[cfg(test)]
#[path = "../tests/main.rs"]
mod tests;
