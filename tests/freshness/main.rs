//! Freshness: entries that expire, are refreshed, go stale, and outlive their origin's troubles, on `hopcache
//! serve` processes with a real Redis, before the real Neo4j or a scripted one where the fault has to be made.
//! Knows hopcache by its HTTP interface only.
//!
//! Runs are counted by a proxy outside hopcache. Figures are said on stderr (`-- --nocapture`); each module names
//! the variables that ask for larger runs.
#![allow(
    dead_code,
    unreachable_pub,
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "test code may fail the test, and its figures are small; each test binary uses its part of support"
)]

#[path = "../support/mod.rs"]
mod support;

mod control;
mod crowd;
mod half;
mod hanging;
mod hints;
mod lease;
mod meters;
mod near;
mod outage;
mod paused;
mod place;
mod principals;
mod queue;
mod retries;
mod said;
mod together;
mod windows;
mod zero;
