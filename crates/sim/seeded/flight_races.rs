//! Proof that the exploration of the flight table's races works: it finds each mistake whose patch says `Caught by: flight_races`.
//!
//! `cargo xtask sim --seeded` copies this file into the tree with the patches, as `crates/engine/tests/flight_races/seeded.rs`,
//! and runs it there.

use hopcache_core::seeded::{Bug, choose};

use crate::scenarios::{self, Scenario};
use crate::{explore, schedules};

/// Each mistake, the scenario that finds it, and a part of the message of the assertion that it breaks.
const MISTAKES: [(Bug, Scenario, &str); 8] = [
    (Bug::FlightCountedLater, scenarios::bound, "over the bound"),
    (Bug::FlightInsertedLater, scenarios::crowd, ""),
    (Bug::FlightLookedFirst, scenarios::crowd, "deadlock"),
    (Bug::FlightLossSilent, scenarios::loss, "deadlock"),
    (Bug::FlightPlaceKept, scenarios::bound, "no room"),
    (Bug::FlightRemovedFirst, scenarios::succession, "two fly at a time"),
    (Bug::FlightRemovesAny, scenarios::detach, ""),
    (Bug::FlightToldFirst, scenarios::loss, "Lost"),
];

#[test]
fn every_seeded_mistake_is_found() {
    let patched: Vec<Bug> =
        Bug::ALL.into_iter().filter(|bug| bug.caught_by() == ["flight_races"]).collect();
    assert_eq!(patched, MISTAKES.map(|(bug, ..)| bug));
    // Each finding prints its panic and its schedule, as a real one would.
    for (bug, scenario, message) in MISTAKES {
        let (begun, found) = explore(scenario, move || choose(Some(bug)), schedules());
        let found = found.unwrap_or_else(|| panic!("{bug:?} was not found in {begun} interleavings"));
        println!("{bug:?}: found in interleaving {begun}: {}", found.lines().next().unwrap_or_default());
        assert!(found.contains(message), "{bug:?}: {found}");
    }
}
