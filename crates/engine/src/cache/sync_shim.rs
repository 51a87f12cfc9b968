//! The locks of the flight table, in a module of their own so that a test can replace them.
//!
//! `tests/flight_races` compiles `flight.rs` against a module of the same name with shuttle's locks, and explores
//! interleavings. Mistakes that the exploration has to find are patches (`Flight*` of `crates/sim/seeded/bugs.patch`).

pub(crate) use std::sync::atomic::{AtomicU32, Ordering};

pub(crate) use parking_lot::Mutex;
pub(crate) use tokio::sync::Notify;
