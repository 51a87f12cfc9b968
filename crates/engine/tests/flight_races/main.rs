//! F3, F4: the flight table's races, explored by shuttle: the very file of the product, on locks that a
//! scheduler controls, in many thousand interleavings; and the same with mistakes made on purpose, each of
//! which has to be found.
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
mod seams;

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use scenarios::Scenario;
use seams::Seed;

/// Interleavings of each scenario that find nothing.
fn schedules() -> usize {
    std::env::var("HOPCACHE_TEST_SCHEDULES").map_or(10_000, |count| count.parse().expect("a number"))
}

/// Preemptions that a schedule of the second kind is made of: enough for every mistake below.
const PREEMPTIONS: usize = 3;

thread_local! {
    /// Interleavings begun in this thread; shuttle runs all of a test's in it.
    static BEGUN: Cell<usize> = const { Cell::new(0) };
}

/// Runs a scenario in as many interleavings, drawn evenly and by few preemptions in turn, in a thread of
/// its own: shuttle leaves one in which it found something in disorder. Returns how many were begun, and
/// what was found.
fn explore(scenario: Scenario, seed: Option<Seed>, schedules: usize) -> (usize, Option<String>) {
    let exploring = std::thread::spawn(move || {
        seams::plant(seed);
        let run = move || {
            BEGUN.set(BEGUN.get() + 1);
            scenario();
        };
        let ended = catch_unwind(AssertUnwindSafe(|| {
            shuttle::check_random(run, schedules / 2);
            shuttle::check_pct(run, schedules / 2, PREEMPTIONS);
        }));
        let said = |panic: Box<dyn Any + Send>| match panic.downcast::<String>() {
            Ok(text) => *text,
            Err(panic) => {
                panic.downcast::<&str>().map_or_else(|_| "no words".to_owned(), |text| (*text).to_owned())
            }
        };
        (BEGUN.get(), ended.err().map(said))
    });
    exploring.join().unwrap()
}

fn holds(name: &str, scenario: Scenario) {
    let started = std::time::Instant::now();
    let (begun, found) = explore(scenario, None, schedules());
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

/// The exploration would find these mistakes, each by the words of the assertion that is broken.
#[test]
fn every_seeded_mistake_is_found() {
    let seeds: [(Seed, Scenario, &str); 8] = [
        (Seed::InsertLater, scenarios::crowd, ""),
        (Seed::CountLater, scenarios::bound, "over the bound"),
        (Seed::RemoveFirst, scenarios::succession, "two fly at a time"),
        (Seed::TellFirst, scenarios::loss, "Lost"),
        (Seed::RemoveAny, scenarios::detach, ""),
        (Seed::SilentLoss, scenarios::loss, "deadlock"),
        (Seed::LookFirst, scenarios::crowd, "deadlock"),
        (Seed::KeepPlace, scenarios::bound, "no room"),
    ];
    // Each finding prints its panic and its schedule, as a real one would.
    for (seed, scenario, words) in seeds {
        let (begun, found) = explore(scenario, Some(seed), schedules());
        let found = found.unwrap_or_else(|| panic!("{seed:?} was not found in {begun} interleavings"));
        eprintln!("{seed:?}: found in interleaving {begun}: {}", found.lines().next().unwrap_or_default());
        assert!(found.contains(words), "{seed:?}: {found}");
    }
}
