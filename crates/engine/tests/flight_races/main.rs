//! F3, F4: shuttle explores the flight table's races. It runs the product's own file, on locks that a scheduler
//! controls, in many thousand interleavings.
//!
//! `cargo xtask sim --seeded` proves that the exploration finds mistakes: it builds each of
//! the bugs `Flight*` of `crates/sim/seeded/bugs.patch` into the table and runs `crates/sim/seeded/flight_races.rs` as
//! a module of this program.
//!
//! `HOPCACHE_TEST_SCHEDULES=1000000` asks for more interleavings of each scenario. A failure prints the
//! schedule; `shuttle::replay` runs it again.
#![allow(
    dead_code,
    unreachable_pub,
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "test code may fail the test; the table's file is compiled whole"
)]

#[path = "../../src/cache/flight.rs"]
mod flight;
mod scenarios;
mod sync_shim;

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use scenarios::Scenario;

/// Interleavings of each scenario.
fn schedules() -> usize {
    std::env::var("HOPCACHE_TEST_SCHEDULES").map_or(10_000, |count| count.parse().expect("a number"))
}

/// Preemptions of a PCT schedule: enough to find every seeded mistake.
const PREEMPTIONS: usize = 3;

thread_local! {
    /// Interleavings begun in this thread; shuttle runs all of a test's in it.
    static BEGUN: Cell<usize> = const { Cell::new(0) };
}

/// Runs a scenario in `schedules` interleavings: half of them drawn evenly, half with few preemptions. `prepare` runs
/// first, in the exploring thread. That thread is used once, as shuttle leaves it in disorder after a finding. Returns
/// the number of interleavings begun, and the panic message if one was found.
fn explore(
    scenario: Scenario,
    prepare: impl FnOnce() + Send + 'static,
    schedules: usize,
) -> (usize, Option<String>) {
    let exploring = std::thread::spawn(move || {
        prepare();
        let run = move || {
            BEGUN.set(BEGUN.get() + 1);
            scenario();
        };
        let ended = catch_unwind(AssertUnwindSafe(|| {
            shuttle::check_random(run, schedules / 2);
            shuttle::check_pct(run, schedules / 2, PREEMPTIONS);
        }));
        let message = |panic: Box<dyn Any + Send>| match panic.downcast::<String>() {
            Ok(text) => *text,
            Err(panic) => {
                panic.downcast::<&str>().map_or_else(|_| "no message".to_owned(), |text| (*text).to_owned())
            }
        };
        (BEGUN.get(), ended.err().map(message))
    });
    exploring.join().unwrap()
}

fn holds(name: &str, scenario: Scenario) {
    let started = std::time::Instant::now();
    let (begun, found) = explore(scenario, || (), schedules());
    eprintln!("{name}: {begun} interleavings in {} ms", started.elapsed().as_millis());
    assert_eq!(found, None, "{name}: the schedule is printed above");
    assert!(begun >= schedules() / 2 * 2);
}

#[test]
fn one_leads_at_a_time_and_all_are_told() {
    holds("crowd", scenarios::crowd);
}

#[test]
fn who_leads_next_finds_the_one_before_ended() {
    holds("succession", scenarios::succession);
}

/// F4.
#[test]
fn a_lost_leader_strands_nobody() {
    holds("loss", scenarios::loss);
}

/// F3.
#[test]
fn who_leaves_changes_nothing_for_the_others() {
    holds("leavers", scenarios::leavers);
}

/// I3: a purge takes a flight out while it ends.
#[test]
fn a_detached_flight_ends_for_its_own_and_leaves_the_new_one() {
    holds("detach", scenarios::detach);
}

/// I9.
#[test]
fn followers_are_bounded_and_leavers_make_room() {
    holds("bound", scenarios::bound);
}

#[test]
fn everything_at_once_ends() {
    holds("medley", scenarios::medley);
}
