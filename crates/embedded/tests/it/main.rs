//! The embedded graph from outside: form of answers, answers against brute force, bounds.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test reports by failing; clippy knows only the test functions themselves"
)]

mod bounds;
mod differential;
mod form;
mod support;
