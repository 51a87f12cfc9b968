//! Proof that the checkers work: for each bug with a patch beside this file, the checker that the patch names catches
//! it within a bound of seeds. The same seeds without a bug are clean. A bug that seeds hardly show has a scene that
//! fails with it.
//!
//! `cargo xtask sim --seeded` copies this file, as module `seeded` of the scenes, into the tree with the patches, and
//! runs it there. `HOPCACHE_TEST_SEEDED_SEEDS` sets the bound (default 2,000).

mod limit;

use std::collections::BTreeSet;
use std::process::Command;

use hopcache_core::seeded::{Bug, choose};
use hopcache_sim::check::Violation;
use hopcache_sim::drive::simulate::{Keep, simulate};

/// Seeds in which a bug has to show itself: as many as a CI run has.
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

/// The first seed in which a checker that the patch names sees the bug, and the checker's message. A seed counts only
/// if it is clean without the bug.
fn first_caught(bug: Bug) -> Option<(u64, Violation)> {
    (0..bound()).find_map(|seed| {
        let caught = violation(Some(bug), seed)?;
        (bug.caught_by().contains(&caught.check) && violation(None, seed).is_none()).then_some((seed, caught))
    })
}

#[test]
fn every_seeded_bug_is_caught() {
    let elsewhere = [&["a schedule of its own"], &["flight_races"]];
    let shown_by_seeds =
        Bug::ALL.into_iter().filter(|bug| !elsewhere.iter().any(|by| bug.caught_by() == *by));
    let caught: Vec<(Bug, Option<(u64, Violation)>)> = std::thread::scope(|scope| {
        let all: Vec<_> = shown_by_seeds.map(|bug| (bug, scope.spawn(move || first_caught(bug)))).collect();
        all.into_iter().map(|(bug, caught)| (bug, caught.join().unwrap())).collect()
    });
    println!("{:<26} {:>6}  caught by", "bug", "seeds");
    for (bug, caught) in &caught {
        match caught {
            Some((seed, violation)) => {
                let what: String = violation.what.chars().take(110).collect();
                println!("{:<26} {:>6}  {}: {what}", format!("{bug:?}"), seed + 1, violation.check);
            }
            None => {
                let other = (0..bound()).find_map(|seed| violation(Some(*bug), seed));
                println!(
                    "{:<26} {:>6}  NOT CAUGHT by {:?}, but {other:?}",
                    format!("{bug:?}"),
                    bound(),
                    bug.caught_by()
                );
            }
        }
    }
    let missed: Vec<&Bug> =
        caught.iter().filter(|(_, caught)| caught.is_none()).map(|(bug, _)| bug).collect();
    assert!(missed.is_empty(), "not seen by the checkers that their patches name: {missed:?}");
}

/// Bugs that seeds hardly show, each with the scene that fails with it.
const SCENES: [(Bug, &str); 25] = [
    (Bug::AnothersEntryServed, "whose::two_clusters_on_one_store_before_two_servers"),
    (Bug::BatchToldLate, "writes::parts::what_a_long_statement_has_committed_is_seen_while_it_runs"),
    (Bug::BookmarkReachesForeign, "writes::proofs::a_bookmark_of_after_a_foreign_write_is_not_answered"),
    (Bug::CursorIsANumber, "restored_store::a_record_that_took_the_number_of_a_lost_one_is_not_skipped"),
    (Bug::EarlierEpochBelieved, "writes::proofs::a_restore_brings_nothing_back_that_a_write_has_ended"),
    (Bug::FailedLookBelieved, "looks_after_pause::a_look_that_failed_is_no_look"),
    (Bug::FailedWriteForgotten, "writes::a_write_whose_answer_was_lost_is_seen"),
    (
        Bug::FloorForgotten,
        "writes::started::a_node_that_starts_does_not_take_a_cut_log_for_whole",
    ),
    (
        Bug::GapAccounted,
        "writes::started::the_first_write_hides_nothing_that_was_written_past_while_all_nodes_were_down",
    ),
    (
        Bug::GoneCountsAsTold,
        "writes::away::a_node_whose_connections_are_reset_serves_nothing_from_before_a_write",
    ),
    (Bug::GrantLostAtNoCache, "misses::a_no_cache_run_knows_a_lease_whose_grant_was_lost"),
    (Bug::InMemoryWithoutLease, "admission::a_holder_without_its_lease_keeps_nothing"),
    (Bug::KeyGainedForgotten, "writes::anchors::a_node_that_gets_a_value_ends_its_readers"),
    (Bug::LapsedCopyServed, "commit_queue::a_copy_whose_lease_has_lapsed_is_not_served"),
    (Bug::LeaseNotLookedAt, "writes::a_stopped_node_delays_a_write_by_its_lease_at_most"),
    (
        Bug::PairCountsUnaccounted,
        "writes::anchors::labels_are_apart_only_as_far_as_all_transactions_are_known",
    ),
    (Bug::PairForgetsLabels, "writes::anchors::labels_that_no_node_has_both_of_keep_each_others_reads"),
    (Bug::PurgeByRefused, "writes::refused::a_write_that_is_rolled_back_ends_reads_of_keys_alone"),
    (Bug::QueueDroppedAtLeave, "commit_queue::a_leaving_node_empties_its_queue"),
    (Bug::QueueNotLookedAt, "commit_queue::an_evicted_copy_is_found_in_the_queue"),
    (
        Bug::ServerStateNotCompared,
        "writes::started::what_was_read_before_a_change_of_rights_is_not_proved_at_a_node_that_starts",
    ),
    (Bug::ShownKeyForgotten, "writes::shown::a_shown_node_that_becomes_another_ends_its_result"),
    (Bug::SilentHolderAwaited, "promises::a_killed_owner_costs_one_more_run_and_no_waiting_for_the_lease"),
    (Bug::TellingDropped, "writes::the_next_telling_brings_what_ended_during_the_last_one"),
    (Bug::UnloggedForgotten, "writes::anchors::who_has_heard_of_a_write_puts_it_into_the_log"),
];

/// Bugs of pure models, which have a test of their own in `limit`.
const OF_MODELS: [Bug; 2] = [Bug::LimitNeverRecovers, Bug::LineStarves];

#[test]
fn a_patch_that_names_no_checker_has_a_schedule() {
    let named: BTreeSet<Bug> =
        Bug::ALL.into_iter().filter(|bug| bug.caught_by() == ["a schedule of its own"]).collect();
    assert_eq!(named, SCENES.iter().map(|(bug, _)| *bug).chain(OF_MODELS).collect());
}

/// Whether the scene passes with this bug, or without one, in a process of its own.
fn passes(scene: &str, bug: Option<Bug>) -> bool {
    let mut program = Command::new(std::env::current_exe().unwrap());
    if let Some(bug) = bug {
        program.env("HOPCACHE_TEST_BUG", format!("{bug:?}"));
    }
    let output = program.args(["--exact", scene]).output().unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).contains("running 1 test"), "there is no scene {scene}");
    output.status.success()
}

#[test]
fn each_scene_fails_with_its_bug_and_passes_without_it() {
    let seen = SCENES.map(|(bug, scene)| (bug, scene, passes(scene, None), passes(scene, Some(bug))));
    for (bug, scene, well, ill) in seen {
        println!("{:<26} {scene} passes: {ill}, without the bug: {well}", format!("{bug:?}"));
    }
    let blind: Vec<_> = seen.into_iter().filter(|(_, _, well, ill)| !well || *ill).collect();
    assert!(blind.is_empty(), "{blind:?}");
}

#[test]
fn without_a_bug_the_same_seeds_are_clean() {
    let broken: Vec<_> =
        (0..bound().min(200)).filter_map(|seed| Some((seed, violation(None, seed)?))).collect();
    assert!(broken.is_empty(), "{broken:?}");
}
