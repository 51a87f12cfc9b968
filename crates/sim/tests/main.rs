//! The engine's tests: scenes and seeds on a simulated cluster. One program, because each test program costs a link.
//!
//! One scene file alone: `cargo test -p hopcache-sim --test scenes promises::`.

mod degrees;
mod flight_ends;
mod found;
mod handover;
mod joining;
mod membership;
mod near;
mod origin_faults;
mod prefetch;
mod promises;
mod refresh;
mod regressions;
mod seeds;
mod sharing_off;
mod slow_runs;
mod stale_if_error;
mod teaching;
