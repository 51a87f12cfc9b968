//! The tests of what this crate shows to others, in the program of its unit tests (`src/lib.rs`).
#![allow(
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "test code may fail the test"
)]

mod binding;
mod learning;
