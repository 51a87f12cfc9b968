//! The tests of this crate, in one program.
#![allow(
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "test code may fail the test"
)]

mod contract;
mod garbage;
mod hostile;
mod opening;
mod rest;
mod silence;
mod support;
