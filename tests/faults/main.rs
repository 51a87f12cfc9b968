//! Faults, hostile clients and bad input: `hopcache serve` processes on a real Redis and a real or proxied Neo4j.
//! Each test proves that its fault happened. Knows hopcache by its HTTP interface only.
//!
//! Figures are said on stderr (`-- --nocapture`); each module names the variables that ask for larger runs.
#![allow(
    dead_code,
    unreachable_pub,
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "test code may fail the test; each test binary uses its part of support"
)]

#[path = "../support/mod.rs"]
mod support;

mod audit;
mod bodies;
mod degrees;
mod descriptors;
mod flights;
mod hostile;
mod hosts;
mod input;
mod isolation;
mod memory;
mod messages;
mod origin;
mod query_log;
mod shutdown;
mod start;
mod store;
mod tls;
