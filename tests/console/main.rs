//! The console in a real Chromium, before three `hopcache serve` processes on a real Redis and a real Neo4j.
//!
//! `HOPCACHE_TEST_PICTURES=/full/path` keeps a picture of every view, light and dark, wide and narrow. The tests print
//! figures to stderr (`-- --nocapture`).
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

mod browser;
mod token;
mod traffic;
mod views;
