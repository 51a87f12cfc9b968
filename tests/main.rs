//! End-to-end tests: `hopcache serve` processes, spoken to over HTTP and Bolt only. Each folder is a lane; [README](README.md) says what each shows.
#![allow(
    unreachable_pub,
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "test code may fail the test, and its figures are small"
)]

mod support;

mod cluster;
mod console;
mod containers;
mod differential;
mod drivers;
mod faults;
mod freshness;
mod membership;
mod oracle;
mod prefetch;
