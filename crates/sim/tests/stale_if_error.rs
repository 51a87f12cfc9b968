//! Stale if error (RFC 5861, section 4) on a simulated cluster: the failures for which a dead copy is served, the
//! failures for which it is not, for how long, to which requests, and with which mark (I4, F25, F26, F27).

use hopcache_core::limits::{ENTRY_LIFE_MS_MAX, LEASE_MS_DEFAULT, LEASE_MS_MIN, STALE_FALLBACK_WAIT_MS_MAX};

use crate::prelude::*;

const TTL_MS: u64 = 60_000;
const GRACE_END_MS: u64 = 90_000;
const STALE_FALLBACK_MS: u64 = 600_000;

fn policy() -> Policy {
    Policy { stale_if_error_ms: Millis(STALE_FALLBACK_MS), ..default_policy() }
}

/// Says so everywhere: the class, the word, its true age, a negative `ttl`.
fn assert_marked(outcome: &Outcome, age_ms: std::ops::Range<u64>) {
    assert!(is_answered(outcome), "{:?}", outcome.answer);
    assert_eq!((outcome.how.class, outcome.how.detail), (Class::Hit, Some(Detail::StaleIfError)));
    let age = outcome.how.age_ms.unwrap().0;
    assert!(age_ms.contains(&age), "{age} in {age_ms:?}");
    let ttl = outcome.how.ttl_ms.unwrap();
    assert!(ttl <= 0 && ttl.abs_diff(TTL_MS.cast_signed() - age.cast_signed()) <= 1, "{ttl} at {age}");
}

/// A cluster with a read entry that is `age_ms` old.
async fn aged(nodes: usize, seed: u64, policy: &Policy, age_ms: u64) -> (World, Ask) {
    age(World::with_policy(nodes, seed, policy), age_ms).await
}

async fn age(world: World, age_ms: u64) -> (World, Ask) {
    let mut ask = world.ask(READ);
    ask.deadline = sim_now() + Millis(ENTRY_LIFE_MS_MAX);
    assert!(is_answered(&world.send(0, &ask).await.unwrap()));
    world.pass(age_ms - 100).await;
    (world, ask)
}

#[tokio::test(start_paused = true)]
async fn every_trouble_is_answered_by_a_dead_copy_at_every_node() {
    let troubles = [
        away(),
        OriginFault::Cut("reset".to_owned()),
        OriginFault::TimedOut,
        OriginFault::Overloaded,
        OriginFault::Transient(said("Neo.TransientError.Transaction.DeadlockDetected")),
        OriginFault::Transient(said("Neo.TransientError.General.DatabaseUnavailable")),
        OriginFault::Failed(said("Neo.DatabaseError.General.UnknownError")),
        OriginFault::Failed(said("Neo.DatabaseError.Database.UnableToStartDatabase")),
        OriginFault::Failed(said("Neo.ClientError.Transaction.Terminated")),
    ];
    for (seed, outage) in troubles.into_iter().enumerate() {
        let (world, ask) = aged(3, seed as u64, &policy(), 100_000).await;
        world.origin.set_behavior(OriginBehavior::Fault(outage.clone()));
        let runs = world.origin.runs();
        for node in 0..3 {
            let outcome = world.send(node, &ask).await.unwrap();
            assert_marked(&outcome, 100_000..102_000);
            assert_eq!(outcome.answered_by.is_some(), node != world.owner_of(&ask), "the owner's answer");
        }
        assert!(world.origin.runs() > runs, "{outage:?} occurred");
        assert_eq!(stale_served(&world), 3, "counted where they were found");
        assert!(world.store.commits().len() == 1, "nothing was stored of it");
        // Well again: the next one begins a run, once the pause of a failing key is over, and need not wait for it.
        world.origin.set_behavior(OriginBehavior::Well);
        world.pass(11_000).await;
        let runs = world.origin.runs();
        assert!(is_answered(&world.send(0, &ask).await.unwrap()));
        world.pass(1_000).await;
        assert_eq!(world.origin.runs(), runs + 1, "{outage:?}");
        assert_eq!(world.send(0, &ask).await.unwrap().how.detail, None, "fresh");
    }
}

/// An error of the statement, or of rights, is the answer, even with a stale fallback.
#[tokio::test(start_paused = true)]
async fn statement_errors_lost_rights_and_limits_are_never_hidden() {
    let never = [
        OriginFault::Failed(said("Neo.ClientError.Statement.SyntaxError")),
        OriginFault::Failed(said("Neo.ClientError.Statement.ArithmeticError")),
        OriginFault::Failed(said("Neo.ClientError.Database.DatabaseNotFound")),
        OriginFault::Failed(said("Neo.ClientError.Security.Forbidden")),
        OriginFault::Failed(said("Neo.DatabaseError.Statement.ExecutionFailed")),
        OriginFault::Transient(said("Neo.TransientError.Security.ModifiedConcurrently")),
        OriginFault::Unauthorized(said("Neo.ClientError.Security.Unauthorized")),
        OriginFault::TooManyRuns,
        OriginFault::TooLarge { limit_bytes: 7 },
    ];
    for (seed, fault) in never.into_iter().enumerate() {
        let (world, ask) = aged(2, seed as u64, &policy(), 100_000).await;
        world.origin.set_behavior(OriginBehavior::Fault(fault.clone()));
        for node in 0..2 {
            let outcome = world.send(node, &ask).await.unwrap();
            assert!(!is_answered(&outcome), "{fault:?}: {:?}", outcome.how);
        }
        assert_eq!(stale_served(&world), 0);
    }
}

/// A key that is held back gives its stale fallback at once, and nothing runs.
#[tokio::test(start_paused = true)]
async fn a_key_that_is_held_back_is_answered_at_once() {
    let (world, ask) = aged(1, 1, &policy(), 100_000).await;
    world.origin.set_behavior(OriginBehavior::Fault(OriginFault::TimedOut));
    world.send(0, &ask).await.unwrap();
    let (runs, before) = (world.origin.runs(), sim_now());
    committed(&world).await;
    world.nodes[0].memory.forget_all();
    assert_marked(&world.send(0, &ask).await.unwrap(), 100_000..101_000);
    assert_eq!((world.origin.runs(), sim_now()), (runs, before));
    assert!(world.nodes[0].events.count(|event| matches!(event, Event::HeldBack)) > 0);
    assert_eq!(
        world.nodes[0].engine.path().sizes().copies,
        1,
        "found in the store, and kept for the next one"
    );
}

#[tokio::test(start_paused = true)]
async fn it_ends_with_its_time_and_not_before() {
    for (spare_ms, age_ms, is_served) in [
        (STALE_FALLBACK_MS, GRACE_END_MS + STALE_FALLBACK_MS - 1_000, true),
        (STALE_FALLBACK_MS, GRACE_END_MS + STALE_FALLBACK_MS + 1_000, false),
        (0, GRACE_END_MS + 1, false),
        (ENTRY_LIFE_MS_MAX, 1_000_000_000, true),
        (u64::MAX, 1_000_000_000, true),
    ] {
        let policy = Policy { stale_if_error_ms: Millis(spare_ms), ..default_policy() };
        let (world, ask) = aged(1, 2, &policy, age_ms).await;
        world.origin.set_behavior(OriginBehavior::Fault(away()));
        for forgets in [false, true] {
            if forgets {
                world.nodes[0].memory.forget_all();
            }
            let outcome = world.send(0, &ask).await.unwrap();
            assert_eq!(is_answered(&outcome), is_served, "{spare_ms} ms at {age_ms} ms: {:?}", outcome.how);
        }
    }
}

/// A TTL above the bound of an entry is cut, and nothing overflows.
#[tokio::test(start_paused = true)]
async fn a_ttl_of_ten_years_is_a_fresh_hit_for_years() {
    for ttl_ms in [ENTRY_LIFE_MS_MAX, u64::MAX / 2] {
        let long =
            Policy { ttl_ms: Millis(ttl_ms), stale_if_error_ms: Millis(ENTRY_LIFE_MS_MAX), ..policy() };
        let year_ms = ENTRY_LIFE_MS_MAX / 10;
        // Advances tokio's paused clock by about two years.
        let (world, ask) = aged(2, 3, &long, year_ms).await;
        world.nodes[world.owner_of(&ask)].memory.forget_all();
        let outcome = world.send(0, &ask).await.unwrap();
        assert_eq!((outcome.how.class, outcome.how.detail), (Class::Hit, None));
        // The node asks its origin first which database that is.
        let age_ms = year_ms + 1;
        assert_eq!(outcome.how.age_ms, Some(Millis(age_ms)), "from the store, the run included");
        assert_eq!(outcome.how.ttl_ms, Some((ENTRY_LIFE_MS_MAX - age_ms).cast_signed()));
    }
}

/// RFC 9111, 5.2.1: the request's own limits have priority.
#[tokio::test(start_paused = true)]
async fn the_requests_own_words_are_kept_to() {
    let plain = Freshness::default();
    let rows = [
        (plain, true),
        (Freshness { no_cache: true, ..plain }, false),
        (Freshness { age_max_ms: Some(Millis(99_000)), ..plain }, false),
        (Freshness { age_max_ms: Some(Millis(110_000)), ..plain }, true),
        (Freshness { stale_max_ms: Some(Millis(39_000)), ..plain }, false),
        (Freshness { stale_max_ms: Some(Millis(50_000)), ..plain }, true),
        (Freshness { stale_max_ms: Some(Millis::ZERO), ..plain }, false),
        (Freshness { only_if_cached: true, ..plain }, false),
    ];
    for (freshness, is_served) in rows {
        let (world, ask) = aged(2, 5, &policy(), 100_000).await;
        world.origin.set_behavior(OriginBehavior::Fault(away()));
        for node in 0..2 {
            let outcome = world.send(node, &Ask { freshness, ..ask.clone() }).await.unwrap();
            assert_eq!(is_answered(&outcome), is_served, "{freshness:?}: {:?}", outcome.how);
            if freshness.only_if_cached {
                assert_eq!(failure(&outcome), FailureKind::NotCached);
            }
        }
    }
}

/// F26: a hanging Neo4j costs one longest wait in all, not one for each request. Its late result is kept.
#[tokio::test(start_paused = true)]
async fn a_slow_run_is_waited_for_as_long_as_runs_usually_take() {
    for memory_forgets in [false, true] {
        let (world, ask) = aged(3, 6, &policy(), 100_000).await;
        let owner = world.owner_of(&ask);
        if memory_forgets {
            world.nodes[owner].memory.forget_all();
        }
        world.origin.set_delay_ms(25_000);
        world.origin.set_version(2);
        let (runs, began) = (world.origin.runs(), sim_now());
        let crowd: Vec<_> = (0..30).map(|client| world.send(client % 3, &ask)).collect();
        for outcome in crowd {
            assert_marked(&outcome.await.unwrap(), 100_000..106_000);
        }
        // Runs of this pattern took 100 ms: the shortest lease. Without any known it would be the default.
        let waited = sim_now().since(began);
        assert!((LEASE_MS_MIN..LEASE_MS_MIN + 100).contains(&waited.0), "{waited:?}");
        const { assert!(STALE_FALLBACK_WAIT_MS_MAX <= LEASE_MS_DEFAULT) };
        for node in 0..3 {
            let began = sim_now();
            assert_marked(&world.send(node, &ask).await.unwrap(), 100_000..106_000);
            assert!(sim_now().since(began) < Millis(10), "no request waits for that run again");
        }
        let strict = Freshness { stale_max_ms: Some(Millis::ZERO), ..Freshness::default() };
        let waits = world.send(owner, &Ask { freshness: strict, ..ask.clone() });
        assert_eq!(world.origin.runs(), runs + 1, "one run for all of them");
        world.pass(25_000).await;
        assert!(
            matches!(waits.await.unwrap().how.class, Class::Miss { .. }),
            "a request that refuses it waited"
        );
        let outcome = world.send(0, &ask).await.unwrap();
        assert_eq!((outcome.how.class, outcome.how.detail), (Class::Hit, None), "the run's result was kept");
        assert_eq!(world.nodes[owner].engine.path().sizes().fallbacks, 0, "nothing is left");
    }
}

/// A client with a short deadline gets the fallback by its own deadline. Requests that joined its forward have their
/// own deadlines.
#[tokio::test(start_paused = true)]
async fn a_passed_deadline_is_answered_by_it() {
    let (world, ask) = aged(2, 7, &policy(), 100_000).await;
    world.origin.set_delay_ms(500);
    let other = 1 - world.owner_of(&ask);
    let began = sim_now();
    let hasty = world.send(other, &Ask { deadline: began + Millis(200), ..ask.clone() });
    let patient = world.send(other, &ask);
    assert_marked(&hasty.await.unwrap(), 100_000..100_400);
    assert!(sim_now().since(began) <= Millis(250));
    assert!(matches!(patient.await.unwrap().how.class, Class::Miss { .. }));
}

/// Within grace the mark tells whether the origin failed the last refresh.
#[tokio::test(start_paused = true)]
async fn stale_within_grace_says_whether_the_last_refresh_failed() {
    // Nothing retries by itself; a hit does.
    let mut policy = policy();
    policy.refresh.retries_max = 0;
    let (world, ask) = aged(1, 8, &policy, 65_000).await;
    world.origin.set_behavior(OriginBehavior::Fault(away()));
    let first = world.send(0, &ask).await.unwrap();
    assert_eq!(first.how.detail, Some(Detail::Stale), "nobody knows yet");
    world.pass(500).await;
    assert_marked(&world.send(0, &ask).await.unwrap(), 65_000..66_000);
    world.origin.set_behavior(OriginBehavior::Well);
    world.pass(3_000).await;
    assert_marked(&world.send(0, &ask).await.unwrap(), 68_000..69_000);
    world.pass(500).await;
    assert_eq!(world.send(0, &ask).await.unwrap().how.detail, None, "replaced");
    // An error of the statement is no outage of the origin: the old value is no longer valid.
    world.pass(65_000).await;
    world.origin.set_behavior(OriginBehavior::Fault(OriginFault::Failed(said(
        "Neo.ClientError.Statement.TypeError",
    ))));
    assert_eq!(world.send(0, &ask).await.unwrap().how.detail, Some(Detail::Stale), "nobody knows yet");
    world.pass(500).await;
    assert!(matches!(world.send(0, &ask).await.unwrap().answer, Answer::Failed(_)));
}

/// A node that stands in for a dead owner finds the fallback in the store.
#[tokio::test(start_paused = true)]
async fn a_node_that_stands_in_for_the_owner_finds_it_in_the_store() {
    let (world, ask) = aged(3, 9, &policy(), 100_000).await;
    world.origin.set_behavior(OriginBehavior::Fault(away()));
    let owner = world.owner_of(&ask);
    world.nodes[owner].process.set(Power::Off);
    world.net.set_way_cut((owner + 1) % 3, owner, true);
    let outcome = world.send((owner + 1) % 3, &ask).await.unwrap();
    assert_marked(&outcome, 100_000..110_000);
    assert_ne!(outcome.answered_by.as_ref().map(|by| &by.node), Some(&world.nodes[owner].engine.me().node));
}

/// F7: with the store away as well, memory has it.
#[tokio::test(start_paused = true)]
async fn with_the_store_away_as_well_memory_has_it() {
    let (world, ask) = aged(1, 10, &policy(), 100_000).await;
    world.origin.set_behavior(OriginBehavior::Fault(away()));
    world.store.set_down(true);
    assert_marked(&world.send(0, &ask).await.unwrap(), 100_000..102_000);
}

/// I3, I4: a purge leaves no stale fallback, neither for a run under way nor for the next one.
#[tokio::test(start_paused = true)]
async fn a_purge_removes_the_stale_copies_as_well() {
    for all in [false, true] {
        let (world, ask) = aged(2, 11, &policy(), 100_000).await;
        world.origin.set_delay_ms(20_000);
        world.origin.set_behavior(OriginBehavior::Fault(OriginFault::TimedOut));
        let waiting = world.send(0, &ask);
        world.pass(100).await;
        assert_eq!(world.nodes[world.owner_of(&ask)].engine.path().sizes().fallbacks, 1);
        let scope = if all { Scope::All } else { Scope::Key(ask.query.key) };
        assert_eq!(world.nodes[1].engine.invalidate().purge(&scope).await.unreached, 0);
        assert_eq!(failure(&waiting.await.unwrap()), FailureKind::OriginTimedOut);
        assert!(!is_answered(&world.send(1, &ask).await.unwrap()));
        assert_eq!(stale_served(&world), 0);
    }
}

/// A key whose last run failed: at the end of grace no request waits for the next run.
#[tokio::test(start_paused = true)]
async fn behind_a_failed_run_nobody_waits_for_the_next() {
    let mut policy = policy();
    policy.refresh.retries_max = 0;
    let (world, ask) = aged(1, 16, &policy, 65_000).await;
    world.origin.set_behavior(OriginBehavior::Fault(away()));
    world.send(0, &ask).await.unwrap();
    world.pass(30_000).await;
    world.origin.set_behavior(OriginBehavior::Well);
    world.origin.set_delay_ms(900);
    let asked = sim_now();
    let outcome = world.send(0, &ask).await.unwrap();
    assert_marked(&outcome, 95_000..96_000);
    assert!(sim_now().since(asked) < Millis(50), "{:?}", sim_now().since(asked));
    world.pass(1_000).await;
    assert_eq!(world.send(0, &ask).await.unwrap().how.detail, None, "the run went on");
}

/// The same for a request from before the stop: when the node goes on, the request's time is over, or it has waited as
/// long as runs usually take. A purge removed the fallback that memory still has. The way to the store takes a while,
/// so the node learns of the purge only then.
#[tokio::test(start_paused = true)]
async fn a_request_of_before_a_stop_gets_no_purged_spare() {
    for left_ms in [100, 60_000] {
        let world = World::with_policy(2, 14, &policy());
        world.nodes.iter().for_each(|node| drop(follow(node)));
        // The first read of the log forgets everything that is there.
        world.pass(10).await;
        let (world, mut ask) = age(world, 100_000).await;
        world.pass(1_010).await;
        let owner = world.owner_of(&ask);
        world.origin.set_delay_ms(25_000);
        ask.deadline = sim_now() + Millis(left_ms);
        let sent = world.send(owner, &ask);
        world.pass(50).await;
        assert_eq!(world.origin.under_way(), 1);
        world.nodes[owner].process.set(Power::Paused);
        world.pass(10_000).await;
        let purged = world.nodes[1 - owner].engine.invalidate().purge(&Scope::Key(ask.query.key)).await;
        assert_eq!(purged.unreached, 1, "the purge could not reach the stopped node");
        assert_eq!(world.nodes[owner].engine.path().sizes().copies, 1, "it still has the copy");
        world.store.set_weather(Weather { delay_ms_max: 20, ..Weather::default() });
        world.nodes[owner].process.set(Power::On);
        let outcome = sent.await.unwrap();
        assert_eq!(stale_served(&world), 0, "{:?}", outcome.how);
        assert_eq!(is_answered(&outcome), left_ms > 100, "only the run's own");
    }
}

/// F27: the waiters of a refused run get the error as soon as the store and this node have forgotten the value, even if
/// no message reaches the other nodes. No later outage brings the old value back, on any node.
#[tokio::test(start_paused = true)]
async fn a_refusal_waits_for_no_silent_peer() {
    let (world, ask) = aged(3, 15, &policy(), 100_000).await;
    let owner = world.owner_of(&ask);
    for node in (0..3).filter(|node| *node != owner) {
        world.nodes[node].process.set(Power::Paused);
    }
    let forbidden = said("Neo.ClientError.Security.Forbidden");
    world.origin.set_behavior(OriginBehavior::Fault(OriginFault::Failed(forbidden.clone())));
    let began = sim_now();
    let outcome = world.send(owner, &ask).await.unwrap();
    assert_eq!(failure(&outcome), FailureKind::Neo4j(forbidden));
    assert!(sim_now().since(began) <= Millis(110), "{:?}", sim_now().since(began));
    world.origin.set_behavior(OriginBehavior::Fault(away()));
    assert!(!is_answered(&world.send(owner, &ask).await.unwrap()), "neither memory nor store has it");
    let before = sim_now();
    while world.nodes[owner].engine.path().sizes().tasks > 0 {
        world.pass(10).await;
    }
    // The messages go to all nodes at the same time.
    assert!(sim_now().since(before) <= default_policy().probe_timeout_ms, "{:?}", sim_now().since(before));
    for node in &world.nodes {
        node.process.set(Power::On);
    }
    for node in 0..3 {
        assert!(!is_answered(&world.send(node, &ask).await.unwrap()));
    }
    assert_eq!(stale_served(&world), 0);
}
