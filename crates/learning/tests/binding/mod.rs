//! Issue 7: the lessons of a session's step, their queries after another query, and which steps there were (DESIGN
//! "Prefetch", THEORY "Learning and prefetch"; bad input: I9, I13).
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "test code")]

mod fields;
mod forms;
mod graph;
mod sessions;
mod templates;
mod values;
