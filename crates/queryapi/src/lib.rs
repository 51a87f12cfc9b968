//! The client's dialect: Neo4j's HTTP Query API v2 (server 5.26), and the headers around it.
//!
//! This crate decides what request bytes mean ([`request`]), how a result becomes JSON ([`render`]),
//! which body and status a failure has ([`failure`]), and how our headers are read and written
//! ([`headers`]). It never does IO, never panics on bytes from outside, and knows no cache.
//!
//! Source of every rule: the server itself, asked (5.26.12); `tests/differential.rs` asks it again.

pub mod failure;
pub mod headers;
mod json;
pub mod render;
pub mod request;
mod temporal;
mod zone;
