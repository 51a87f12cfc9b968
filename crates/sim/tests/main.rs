//! The engine's tests: scenes and seeds on a simulated cluster. One program, because each test program costs a link.
//!
//! One scene file alone: `cargo test -p hopcache-sim --test scenes promises::`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "test code")]

mod admission;
mod bookmarks;
mod commit_queue;
mod degrees;
mod direct_runs;
mod first_runs;
mod flight_ends;
mod handover;
mod joined_flights;
mod learned_ttls;
mod learning;
mod lease_backoff;
mod looks_after_pause;
mod membership;
mod misses;
mod near_copies;
mod origin_faults;
mod plain_text_front;
mod prefetch;
mod prelude;
mod promises;
mod refresh;
mod regression_schedules;
mod regression_seeds;
mod restored_store;
mod run_costs;
mod run_limits;
mod seeds;
mod slow_runs;
mod stale_if_error;
mod whose;
mod writes;
