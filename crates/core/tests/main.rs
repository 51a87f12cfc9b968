//! The tests of what this crate shows to others, in the program of its unit tests (`src/lib.rs`).
#![allow(
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "test code may fail the test"
)]

mod anchors;
mod bookmark;
mod dice;
mod entry;
mod line;
mod membership_cards;
mod membership_table;
mod origin_limit;
mod refresh;
mod result;
mod ring;
mod ring_weights;
mod ttl;
mod turns;
mod write_board;
mod written;
