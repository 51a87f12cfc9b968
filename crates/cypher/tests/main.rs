//! The tests of what this crate shows to others, in the program of its unit tests (`src/lib.rs`).
#![allow(
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "test code may fail the test"
)]

mod anchors;
#[path = "../../queryapi/tests/bolt/mod.rs"]
#[allow(
    dead_code,
    clippy::disallowed_types,
    reason = "shared with hopcache-queryapi's tests; a test has sockets"
)]
mod bolt;
mod query_key;
mod shared_form;
mod shared_real;
mod tags;
mod verdicts;
