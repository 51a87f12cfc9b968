//! Issue 5, must-show 1: early refresh as numbers (THEORY "Early refresh", F41).
//!
//! Cycles of a simulated key are `HOPCACHE_TEST_CYCLES` (20,000) for each row of a table; every seed is fixed.
#![allow(clippy::unwrap_used, clippy::float_cmp, reason = "a helper of a test may fail the test")]
#![allow(clippy::cast_precision_loss, reason = "counts are far below 2^53")]

use super::dice;

mod crowd;
mod history;
mod inputs;
mod key_life;
mod learned;
mod mistakes;
mod properties;
mod solved;
mod table;
