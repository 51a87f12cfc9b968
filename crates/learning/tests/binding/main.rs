//! Issue 7: what a step of a session teaches, what that becomes for another query, and which steps there were (DESIGN
//! "Prefetch", THEORY "Learning and prefetch"; bad input: I9, I13).
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "test code")]

mod expansion;
mod fields;
mod forms;
mod graph;
mod sessions;
mod templates;
mod values;
