//! Proof that the checkers work: for each bug with a patch beside this file, the checker that the patch names catches
//! it within a bound of seeds. The same seeds without a bug are clean.
//!
//! `cargo xtask sim --seeded` copies this file, as `crates/sim/tests/seeded/main.rs`, into the tree with the patches,
//! and runs it there. `HOPCACHE_TEST_SEEDED_SEEDS` sets the bound (default 2,000).

mod admission;
mod learning;
mod limit;
mod writes;

use hopcache_core::limits::INVALIDATION_POLL_MS;
use hopcache_core::seeded::{Bug, choose};
use hopcache_core::time::Millis;
use hopcache_engine::ask::{Ask, Freshness};
use hopcache_engine::outcome::Answer;
use hopcache_engine::ports::Scope;
use hopcache_sim::World;
use hopcache_sim::check::Violation;
use hopcache_sim::drive::simulate::{Keep, simulate};
use hopcache_sim::world::net::NetWeather;
use hopcache_sim::world::process::Power;
use hopcache_sim::world::store::Weather;

/// Seeds in which a bug has to show itself: as many as a CI run has.
const SEEDS: u64 = 2_000;

fn bound() -> u64 {
    std::env::var("HOPCACHE_TEST_SEEDED_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(SEEDS)
}

/// Runs a schedule in simulated time, with a bug or without one.
fn run_with<T>(bug: Option<Bug>, schedule: impl Future<Output = T>) -> T {
    choose(bug);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let seen = runtime.unwrap().block_on(schedule);
    choose(None);
    seen
}

/// How many of so many questions a node answers from memory, one each `apart_ms`.
async fn hits(world: &World, node: usize, ask: &Ask, (questions, apart_ms): (usize, u64)) -> usize {
    let mut hits = 0;
    for _ in 0..questions {
        hits += usize::from(world.nodes[node].engine.path().hit(ask).is_some());
        world.pass(apart_ms).await;
    }
    hits
}

/// What a node answers, as text.
async fn answered(world: &World, node: usize, ask: &Ask) -> String {
    match world.send(node, ask).await.unwrap().answer {
        Answer::Body(body) => String::from_utf8_lossy(&body).into_owned(),
        Answer::Failed(failure) => format!("{failure:?}"),
    }
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
    let shown_by_seeds =
        Bug::ALL.into_iter().filter(|bug| !BY_SCHEDULE.contains(bug) && bug.caught_by() != ["flight_races"]);
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

/// Bugs that have a test of their own here.
const BY_SCHEDULE: [Bug; 16] = [
    Bug::AnothersEntryServed,
    Bug::BatchToldLate,
    Bug::BookmarkReachesForeign,
    Bug::CursorIsANumber,
    Bug::EarlierEpochBelieved,
    Bug::FailedLookBelieved,
    Bug::FailedWriteForgotten,
    Bug::GoneCountsAsTold,
    Bug::GrantLostAtNoCache,
    Bug::InMemoryWithoutLease,
    Bug::LeaseNotLookedAt,
    Bug::LimitNeverRecovers,
    Bug::LineStarves,
    Bug::PurgeByRefused,
    Bug::SilentHolderAwaited,
    Bug::TellingDropped,
];

#[test]
fn a_patch_that_names_no_checker_has_a_schedule() {
    let named: Vec<Bug> =
        Bug::ALL.into_iter().filter(|bug| bug.caught_by() == ["a schedule of its own"]).collect();
    assert_eq!(named, BY_SCHEDULE);
}

#[test]
fn without_a_bug_the_same_seeds_are_clean() {
    let broken: Vec<_> =
        (0..bound().min(200)).filter_map(|seed| Some((seed, violation(None, seed)?))).collect();
    assert!(broken.is_empty(), "{broken:?}");
}

/// How long requests wait when their owner is killed half a second into its run and its address dies with it.
fn wait_behind_a_silent_death(bug: Option<Bug>) -> Millis {
    run_with(bug, async {
        let world = World::new(3, 4);
        world.net.set_weather(NetWeather { dead_are_silent: true, ..NetWeather::default() });
        world.origin.set_delay_ms(1_000);
        let ask = world.ask("MATCH (n) RETURN n.version AS version");
        let owner = world.owner_of(&ask);
        let started = tokio::time::Instant::now();
        let sent: Vec<_> = (0..3).filter(|node| *node != owner).map(|node| world.send(node, &ask)).collect();
        world.pass(500).await;
        assert_eq!(world.origin.runs(), 1, "it happens in mid-run");
        world.nodes[owner].process.set(Power::Off);
        for outcome in sent {
            assert!(matches!(outcome.await.unwrap().answer, Answer::Body(_)));
        }
        Millis(u64::try_from(started.elapsed().as_millis()).unwrap())
    })
}

/// I7, the bound of `promises.rs`: run, half a second, run. With the bug, `dead_are_silent` does not keep this bound.
#[test]
fn a_silent_holder_that_is_waited_for_is_seen() {
    let bound = Millis(500 + 500 + 1_000);
    let (well, ill) =
        (wait_behind_a_silent_death(None), wait_behind_a_silent_death(Some(Bug::SilentHolderAwaited)));
    println!("SilentHolderAwaited: answered after {} ms, and after {} ms without it", ill.0, well.0);
    assert!(well < bound && ill > bound, "{well:?}, {ill:?}");
}

/// Leases left in the store after a `no-cache` request whose first request for the lease succeeded without the node
/// getting the answer.
fn leases_after_a_lost_grant(bug: Option<Bug>) -> usize {
    run_with(bug, async {
        let world = World::new(1, 4);
        let mut ask = world.ask("MATCH (n) RETURN n.version AS version");
        ask.freshness = Freshness { no_cache: true, ..Freshness::default() };
        world.store.set_weather(Weather { lost_answers: 1_000, ..Weather::default() });
        let sent = world.send(0, &ask);
        world.pass(20).await;
        world.store.set_weather(Weather::default());
        assert!(matches!(sent.await.unwrap().answer, Answer::Body(_)));
        assert_eq!((world.store.grants(), world.origin.runs()), (1, 1));
        world.store.leases()
    })
}

/// F21: a lease whose grant was lost on its way keeps no request waiting.
#[test]
fn a_grant_that_is_lost_at_no_cache_is_seen() {
    let (well, ill) =
        (leases_after_a_lost_grant(None), leases_after_a_lost_grant(Some(Bug::GrantLostAtNoCache)));
    println!("GrantLostAtNoCache: {ill} lease left behind, and {well} without it");
    assert_eq!((well, ill), (0, 1));
}

/// The answer of a node after a purge whose record took the number of a lost one: the schedule of `restored_store.rs`.
fn answer_after_a_repeated_number(bug: Option<Bug>) -> String {
    run_with(bug, async {
        let world = World::new(2, 63);
        let ask = world.ask("MATCH (n) RETURN n.version AS version");
        let other = world.ask("MATCH (m) RETURN m.version AS version");
        let reader = world.owner_of(&ask);
        let engine = world.nodes[reader].engine.clone();
        tokio::spawn(async move { engine.path().follow_invalidations().await });
        world.pass(10).await;
        world.send(reader, &ask).await.unwrap();
        world.net.set_way_cut(1 - reader, reader, true);
        let purger = world.nodes[1 - reader].engine.clone();
        purger.invalidate().purge(&Scope::Key(other.query.key)).await;
        world.pass(INVALIDATION_POLL_MS).await;
        world.store.fall_back(1);
        world.origin.set_version(2);
        purger.invalidate().purge(&Scope::Key(ask.query.key)).await;
        world.pass(INVALIDATION_POLL_MS + 10).await;
        answered(&world, reader, &ask).await
    })
}

/// F44: a record is known by its number and its tag.
#[test]
fn a_cursor_that_is_a_number_is_seen() {
    let (well, ill) =
        (answer_after_a_repeated_number(None), answer_after_a_repeated_number(Some(Bug::CursorIsANumber)));
    println!("CursorIsANumber: answered {ill}, and {well} without it");
    assert!(well.contains("[[2,") && ill.contains("[[1,"), "{well}, {ill}");
}

/// What a node answers from memory that was stopped during a purge and whose first looks at the log fail: the schedule of
/// `looks_after_pause.rs`.
fn hits_after_a_failed_look(bug: Option<Bug>) -> usize {
    run_with(bug, async {
        let world = World::new(2, 71);
        let ask = world.ask("MATCH (n) RETURN n.version AS version");
        let owner = world.owner_of(&ask);
        let engine = world.nodes[owner].engine.clone();
        tokio::spawn(async move { engine.path().follow_invalidations().await });
        world.pass(10).await;
        world.send(owner, &ask).await.unwrap();
        world.nodes[owner].process.set(Power::Paused);
        world.net.set_way_cut(1 - owner, owner, true);
        let purger = world.nodes[1 - owner].engine.clone();
        assert_eq!(purger.invalidate().purge(&Scope::Key(ask.query.key)).await.unreached, 1);
        world.pass(3_500).await;
        world.store.set_cut(owner, true);
        world.nodes[owner].process.set(Power::On);
        hits(&world, owner, &ask, (50, 10)).await
    })
}

/// F55: a look at the log that failed is no look.
#[test]
fn a_failed_look_that_is_believed_is_seen() {
    let (well, ill) =
        (hits_after_a_failed_look(None), hits_after_a_failed_look(Some(Bug::FailedLookBelieved)));
    println!(
        "FailedLookBelieved: {ill} of 50 questions are answered with what was purged, and {well} without it"
    );
    assert!(well == 0 && ill > 0, "{well}, {ill}");
}
