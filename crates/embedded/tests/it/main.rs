//! The embedded graph from outside: form of answers, answers against brute force, bounds.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test says what is wrong by failing; clippy only knows test functions themselves"
)]

mod bounds;
mod differential;
mod form;
mod support;
