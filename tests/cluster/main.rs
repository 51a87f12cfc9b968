//! `hopcache serve` processes on a real Redis and a real Neo4j, asked by real clients, killed and stopped.
//! Runs are counted outside hopcache, by a proxy before Neo4j. Knows hopcache by its HTTP interface only.
//!
//! `HOPCACHE_TEST_ROUNDS=30` repeats each fault 30 times. Figures are said on stderr (`-- --nocapture`).
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

mod collapse;
mod hits;
mod holder_paused;
mod joining;
mod leaving;
mod origin_cut;
mod owner_killed;
mod purge;
mod store_down;
mod writes;
