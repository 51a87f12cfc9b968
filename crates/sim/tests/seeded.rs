//! Proof that the checkers work: bugs of FAULTS.md's list, built in under `--cfg hopcache_seeded`, are each caught
//! by some checker within a bound of seeds, and the same seeds without a bug are clean.
//!
//! `cargo xtask sim --seeded` runs it. `HOPCACHE_TEST_SEEDED_SEEDS` is the bound (2,000).
#![cfg(hopcache_seeded)]

use hopcache_core::seeded::{Bug, choose};
use hopcache_sim::check::Violation;
use hopcache_sim::simulate::{Keep, simulate};

/// Seeds in which a bug has to show itself: a twentieth of a CI run's.
const SEEDS: u64 = 2_000;

fn bound() -> u64 {
    std::env::var("HOPCACHE_TEST_SEEDED_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(SEEDS)
}

fn violation(bug: Option<Bug>, seed: u64) -> Option<Violation> {
    choose(bug);
    let report = simulate(seed, Keep::Failures);
    choose(None);
    report.violation
}

/// The first seed that shows the bug, and what the checker said. A seed that is not clean without the bug shows
/// nothing.
fn first_caught(bug: Bug) -> Option<(u64, Violation)> {
    (0..bound()).find_map(|seed| {
        let caught = violation(Some(bug), seed)?;
        violation(None, seed).is_none().then_some((seed, caught))
    })
}

#[test]
fn every_seeded_bug_is_caught() {
    let caught: Vec<(Bug, Option<(u64, Violation)>)> = std::thread::scope(|scope| {
        let all: Vec<_> =
            Bug::ALL.into_iter().map(|bug| (bug, scope.spawn(move || first_caught(bug)))).collect();
        all.into_iter().map(|(bug, caught)| (bug, caught.join().unwrap())).collect()
    });
    println!("{:<26} {:>6}  caught by", "bug", "seeds");
    for (bug, caught) in &caught {
        match caught {
            Some((seed, said)) => {
                let what: String = said.what.chars().take(110).collect();
                println!("{:<26} {:>6}  {}: {what}", format!("{bug:?}"), seed + 1, said.check);
            }
            None => println!("{:<26} {:>6}  NOT CAUGHT", format!("{bug:?}"), bound()),
        }
    }
    let missed: Vec<&Bug> =
        caught.iter().filter(|(_, caught)| caught.is_none()).map(|(bug, _)| bug).collect();
    assert!(missed.is_empty(), "no checker sees {missed:?}");
}

#[test]
fn without_a_bug_the_same_seeds_are_clean() {
    let broken: Vec<_> =
        (0..bound().min(200)).filter_map(|seed| Some((seed, violation(None, seed)?))).collect();
    assert!(broken.is_empty(), "{broken:?}");
}
