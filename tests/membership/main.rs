//! A cluster in operation: nodes join, leave, die and disagree while clients ask. Real `hopcache serve` processes, a
//! real Redis, the real Neo4j or a scripted one. Each module names its faults (F..) and promises (I..).
//!
//! The tests print figures to stderr (`-- --nocapture`). Each module names the variables for larger runs.
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

mod behind_haproxy;
mod degraded;
mod gossip;
mod joining;
mod leaving;
