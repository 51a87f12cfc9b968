//! Learning and prefetch of real `hopcache serve` processes, on a real Redis and the real Neo4j: what a session teaches
//! through some nodes is warmed for another session at others. Each module says what it shows.
//!
//! Figures are said on stderr (`-- --nocapture`); each module names the variables that ask for larger runs.
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

mod books;
mod graph;
mod isolation;
mod killed;
mod off;
mod partition;
mod password;
mod refused;
mod sessions;
mod shapes;
mod shown;
mod taught;
mod writes;
