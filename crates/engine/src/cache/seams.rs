//! Where the flight table can be taken apart: its locks, and the mistakes that it must not make.
//!
//! `tests/flight_races` compiles `flight.rs` against a module of the same name, whose locks are the
//! scheduler's that explores interleavings, and whose `is_seeded` makes one of the mistakes below, to
//! prove that the exploration would find it. Here every seed is constantly off and costs nothing.

pub(crate) use std::sync::atomic::{AtomicU32, Ordering};

pub(crate) use parking_lot::Mutex;
pub(crate) use tokio::sync::Notify;

/// A mistake in the flight table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Seed {
    /// Looks up under one lock and inserts under another.
    InsertLater,
    /// Counts a follower after the lock under which there was room.
    CountLater,
    /// Takes the flight out of the table before its end is told.
    RemoveFirst,
    /// Tells the end of a flight that can still be joined.
    TellFirst,
    /// Takes whatever flight the key has out of the table.
    RemoveAny,
    /// Tells nobody of a leader that was dropped.
    SilentLoss,
    /// Looks for the end before it is in line to be woken.
    LookFirst,
    /// Keeps the place of a follower that left.
    KeepPlace,
}

/// Whether a mistake is made on purpose: never.
pub(crate) const fn is_seeded(_: Seed) -> bool {
    false
}
