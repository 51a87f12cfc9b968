//! Every way in which a flight ends, by its name in the table of `engine::flight`, and the answers of its waiters.

use hopcache_core::limits::{FOLLOWERS_MAX, PASS_THROUGH_BYTES_MAX};
use hopcache_cypher::verdict::BypassReason;

use crate::prelude::*;
use std::time::Duration;

use tokio::time::Instant;

/// A run's time here, and a little more: less than two runs one after the other.
const RUN_MS: u64 = 100;
const ABOUT_ONE_RUN: Duration = Duration::from_millis(2 * RUN_MS - 20);

/// Sends `count` requests at once to the first node. Returns all outcomes, and the longest wait.
#[expect(clippy::unwrap_used, reason = "a test's own failure")]
async fn crowd(world: &World, ask: &Ask, count: usize) -> (Vec<Outcome>, Duration) {
    let started = Instant::now();
    let sent: Vec<_> = (0..count).map(|_| world.send(0, ask)).collect();
    let mut outcomes = Vec::new();
    for outcome in sent {
        outcomes.push(outcome.await.unwrap());
    }
    (outcomes, started.elapsed())
}

fn joined(world: &World) -> usize {
    world.nodes[0].events.count(|event| matches!(event, Event::Joined))
}

#[tokio::test(start_paused = true)]
async fn a_flight_under_way_is_joined_and_seen() {
    let world = World::new(1, 41);
    let ask = world.ask(READ);
    let sent: Vec<_> = (0..3).map(|_| world.send(0, &ask)).collect();
    world.pass(RUN_MS / 2).await;
    let engine = &world.nodes[0].engine;
    assert_eq!((engine.path().flights_under_way(), engine.fetch().leases_held()), (1, 1));
    let late = world.send(0, &ask);
    for outcome in sent.into_iter().chain([late]) {
        assert_eq!(version_in(&outcome.await.unwrap()), Some(1));
    }
    assert_eq!((world.origin.runs(), joined(&world)), (1, 3));
    committed(&world).await;
    assert_eq!((engine.path().flights_under_way(), engine.fetch().leases_held()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn done_everybody_gets_the_value_and_it_is_kept() {
    let world = World::new(1, 42);
    let ask = world.ask(READ);
    let (outcomes, _) = crowd(&world, &ask, 20).await;
    let stored = |outcome: &Outcome| matches!(outcome.how.class, Class::Miss { kept: Kept::Stored, .. });
    assert!(outcomes.iter().all(|outcome| version_in(outcome) == Some(1) && stored(outcome)));
    let led = |outcome: &&Outcome| matches!(outcome.how.class, Class::Miss { role: Role::Led, .. });
    assert_eq!(outcomes.iter().filter(led).count(), 1, "the others joined it");
    assert_eq!(crowd(&world, &ask, 1).await.0[0].how.class, Class::Hit);
}

#[tokio::test(start_paused = true)]
async fn done_elsewhere_is_found_in_the_store() {
    let world = World::new(2, 43);
    each_owns_all(&world);
    let ask = world.ask(READ);
    world.send(1, &ask).await.unwrap();
    let (outcomes, _) = crowd(&world, &ask, 20).await;
    assert!(outcomes.iter().all(|outcome| version_in(outcome) == Some(1) && outcome.how.class == Class::Hit));
    assert_eq!(world.origin.runs(), 1);
    let landed = |event: &Event| matches!(event, Event::Landed { followers: 19 });
    assert_eq!(world.nodes[0].events.count(landed), 1, "it was a flight that found it");
}

#[tokio::test(start_paused = true)]
async fn stale_is_served_to_all_while_one_refresh_runs() {
    let world = World::new(1, 44);
    world.send(0, &world.ask(READ)).await.unwrap();
    committed(&world).await;
    world.nodes[0].memory.forget_all();
    world.origin.set_version(2);
    world.pass(61_000).await;
    let ask = world.ask(READ);
    let (outcomes, waited) = crowd(&world, &ask, 20).await;
    let stale =
        |outcome: &Outcome| outcome.how.detail == Some(Detail::Stale) && version_in(outcome) == Some(1);
    assert!(outcomes.iter().all(stale));
    assert!(waited < Duration::from_millis(RUN_MS), "{waited:?}: no request waits for the refresh");
    world.pass(2 * RUN_MS).await;
    assert_eq!(world.origin.runs(), 2);
    assert_eq!(version_in(&crowd(&world, &ask, 1).await.0[0]), Some(2));
}

/// I3.
#[tokio::test(start_paused = true)]
async fn fenced_is_answered_and_not_kept() {
    let world = World::new(1, 45);
    let ask = world.ask(READ);
    let sent: Vec<_> = (0..20).map(|_| world.send(0, &ask)).collect();
    world.pass(RUN_MS / 2).await;
    world.store.lose_everything();
    for outcome in sent {
        let outcome = outcome.await.unwrap();
        assert_eq!(version_in(&outcome), Some(1));
        assert!(matches!(outcome.how.class, Class::Miss { kept: Kept::Stored, .. }), "its commit waits");
    }
    committed(&world).await;
    assert_eq!(world.store.commits()[0].2, Commit::Fenced);
    world.origin.set_version(2);
    assert_eq!(version_in(&crowd(&world, &ask, 1).await.0[0]), Some(2), "it was kept");
}

/// I11, F27, F29.
#[tokio::test(start_paused = true)]
async fn an_error_of_the_statement_is_everybodys() {
    let neo4j_failure = said("Neo.ClientError.Statement.ArithmeticError");
    // Below this bound a result is only too large for an entry, and is left to its clients.
    let limit_bytes = PASS_THROUGH_BYTES_MAX;
    let faults = [
        (OriginFault::Failed(neo4j_failure.clone()), FailureKind::Neo4j(neo4j_failure)),
        (OriginFault::TooLarge { limit_bytes }, FailureKind::TooLarge { limit_bytes }),
    ];
    for (fault, kind) in faults {
        let world = World::new(1, 46);
        world.origin.set_behavior(OriginBehavior::Fault(fault));
        let ask = world.ask(READ);
        let (outcomes, waited) = crowd(&world, &ask, 20).await;
        assert!(outcomes.iter().all(|outcome| failure_in(outcome).as_ref() == Some(&kind)));
        assert!(waited < ABOUT_ONE_RUN, "{kind:?}: {waited:?}");
        assert_eq!(world.origin.runs(), 1, "{kind:?}");
        world.origin.set_behavior(OriginBehavior::Well);
        assert_eq!(version_in(&crowd(&world, &ask, 1).await.0[0]), Some(1), "{kind:?} was kept");
    }
}

/// F25, F28: two runs, however many wait, and not one for each of them in turn. F26: one, where it used up its
/// time.
#[tokio::test(start_paused = true)]
async fn a_transient_error_is_tried_once_more_by_one() {
    let neo4j_failure = said("Neo.TransientError.General.OutOfMemory");
    let faults = [
        (OriginFault::Transient(neo4j_failure.clone()), FailureKind::Neo4j(neo4j_failure), 2),
        (OriginFault::Cut("cut".into()), FailureKind::OriginCut, 2),
        (OriginFault::TimedOut, FailureKind::OriginTimedOut, 1),
        (away(), FailureKind::OriginUnreachable, 2),
        (OriginFault::Overloaded, FailureKind::Overloaded, 2),
    ];
    for (fault, kind, runs) in faults {
        let world = World::new(1, 47);
        world.origin.set_behavior(OriginBehavior::Fault(fault));
        let ask = world.ask(READ);
        let (outcomes, _) = crowd(&world, &ask, 20).await;
        assert!(outcomes.iter().all(|outcome| failure_in(outcome).as_ref() == Some(&kind)));
        assert_eq!(world.origin.runs(), runs, "{kind:?}");
        assert_eq!(world.nodes[0].engine.fetch().leases_held(), 0, "{kind:?}");
    }
}

/// F29: the waiters for a result that cannot be kept get it from the one run. Once the result is known to be too large,
/// requests run beside each other.
#[tokio::test(start_paused = true)]
async fn uncacheable_waiters_are_not_serialised() {
    let too_large = Policy { entry_bytes_max: 1, ..default_policy() };
    let off = Policy { ttl_ms: Millis::ZERO, ..default_policy() };
    let cases = [
        (too_large, OriginBehavior::Well, Detail::TooLarge, Some(Reason::TooLarge)),
        (default_policy(), OriginBehavior::Update, Detail::Updates, Some(Reason::Write)),
        (off, OriginBehavior::Well, Detail::Off, None),
    ];
    for (policy, behavior, detail, then) in cases {
        let world = World::with_policy(1, 48, &policy);
        world.origin.set_behavior(behavior);
        let ask = world.ask(READ);
        let (outcomes, waited) = crowd(&world, &ask, 20).await;
        let shared = |outcome: &Outcome| {
            version_in(outcome) == Some(1)
                && outcome.how.detail == Some(detail)
                && matches!(outcome.how.class, Class::Miss { kept: Kept::Skipped, .. })
        };
        assert!(outcomes.iter().all(shared), "{detail:?}");
        assert!(waited < ABOUT_ONE_RUN, "{detail:?}: {waited:?}");
        assert_eq!(world.origin.runs(), 1, "{detail:?}");
        assert!(world.store.commits().is_empty());

        let (outcomes, waited) = crowd(&world, &ask, 20).await;
        assert!(waited < ABOUT_ONE_RUN, "{detail:?}: the next twenty took {waited:?}");
        match then {
            Some(reason) => {
                assert!(outcomes.iter().all(|outcome| outcome.how.class == Class::Bypass(reason)));
                assert_eq!(world.origin.runs(), 21, "{detail:?}");
            }
            None => assert_eq!(world.origin.runs(), 2, "{detail:?}"),
        }
    }
}

/// TTL 0 between nodes: one run for all requests at any node while it is under way, and no longer.
#[tokio::test(start_paused = true)]
async fn without_a_ttl_nodes_share_the_run_under_way() {
    let world = World::with_policy(3, 62, &Policy { ttl_ms: Millis::ZERO, ..default_policy() });
    let ask = world.ask(READ);
    for runs in 1..4 {
        let sent: Vec<_> = (0..30).map(|client| world.send(client % 3, &ask)).collect();
        world.pass(RUN_MS / 2).await;
        let late = world.send(0, &ask);
        for outcome in sent.into_iter().chain([late]) {
            assert_eq!(version_in(&outcome.await.unwrap()), Some(i64::try_from(runs).unwrap()));
        }
        assert_eq!(world.origin.runs(), runs);
        world.origin.set_version(1 + i64::try_from(runs).unwrap());
    }
}

/// I6, seeds 9637 and 19310: a run past the cache shows that a statement changes data, and nobody takes it for a read again.
#[tokio::test(start_paused = true)]
async fn an_update_past_the_cache_is_remembered() {
    let world = World::new(1, 60);
    let ask = world.ask(READ);
    world.origin.set_behavior(OriginBehavior::Update);
    let past = Ask { bypass: Some(RequestBypass::NoStore), ..ask.clone() };
    assert_eq!(world.send(0, &past).await.unwrap().how.class, Class::Bypass(Reason::NoStore));
    world.origin.set_behavior(OriginBehavior::Well);
    assert_eq!(world.send(0, &ask).await.unwrap().how.class, Class::Bypass(Reason::Write));
    assert!(world.store.commits().is_empty());
}

/// I6.
#[tokio::test(start_paused = true)]
async fn not_a_read_sets_all_free_at_once() {
    let world = World::new(1, 49);
    let ask = world.ask("MATCH (n:SLY) RETURN n");
    let (outcomes, waited) = crowd(&world, &ask, 20).await;
    assert!(outcomes.iter().all(|outcome| outcome.how.class == Class::Bypass(Reason::Write)));
    assert!(waited < ABOUT_ONE_RUN, "{waited:?}");
    assert_eq!((world.origin.runs(), world.origin.kinds()), (20, 1));
}

/// F4: the panic gives the lease back, so the next leader does not wait for it to lapse.
#[tokio::test(start_paused = true)]
async fn a_lost_leader_costs_one_more_run_and_no_lease() {
    let world = World::new(1, 50);
    world.origin.set_behavior(OriginBehavior::Panic(1));
    let ask = world.ask(READ);
    let (outcomes, waited) = crowd(&world, &ask, 20).await;
    assert!(outcomes.iter().all(|outcome| version_in(outcome) == Some(1)));
    assert_eq!(world.origin.runs(), 2, "the fault happened once, and one led after it");
    assert!(waited < Duration::from_millis(4 * RUN_MS), "{waited:?}: the lost lease was waited for");
    committed(&world).await;
    assert_eq!(world.nodes[0].engine.fetch().leases_held(), 0);
}

/// F4: a leader that has won a lease and a stale value panics before it has begun the refresh.
#[tokio::test(start_paused = true)]
async fn a_leader_lost_between_lease_and_refresh_leaves_no_lease() {
    let world = World::new(1, 53);
    world.send(0, &world.ask(READ)).await.unwrap();
    world.pass(61_000).await;
    world.origin.set_version(2);
    world.nodes[0].memory.forget_all();
    world.nodes[0].memory.panic_at_next_put();
    let (outcomes, _) = crowd(&world, &world.ask(READ), 3).await;
    assert!(outcomes.iter().all(|outcome| version_in(outcome) == Some(1)));
    assert!(joined(&world) > 2, "the fault happened: two waited, and competed again");
    world.pass(2 * RUN_MS).await;
    let engine = &world.nodes[0].engine;
    assert_eq!(
        (world.origin.runs(), engine.fetch().leases_held()),
        (2, 0),
        "one refresh, and no lease is left"
    );
    assert_eq!(version_in(&crowd(&world, &world.ask(READ), 1).await.0[0]), Some(2));
}

/// I4, F2: a node is stopped during its run for longer than TTL and grace. The run's result answers none of its
/// followers.
#[tokio::test(start_paused = true)]
async fn a_holder_too_old_is_not_believed() {
    let world = World::new(1, 53);
    let mut ask = world.ask(READ);
    ask.deadline = sim_now() + Millis(600_000);
    let sent: Vec<_> = (0..10).map(|_| world.send(0, &ask)).collect();
    world.pass(RUN_MS / 2).await;
    world.nodes[0].process.set(Power::Paused);
    world.pass(100_000).await;
    world.origin.set_version(2);
    world.nodes[0].process.set(Power::On);
    for outcome in sent {
        let outcome = outcome.await.unwrap();
        let expected = match outcome.how.class {
            Class::Miss { role: Role::Led, kept } if version_in(&outcome) == Some(1) => {
                assert_ne!(kept, Kept::Stored, "100 s old");
                continue;
            }
            _ => Some(2),
        };
        assert_eq!(version_in(&outcome), expected, "{:?}", outcome.how);
    }
    assert_eq!(world.origin.runs(), 2);
}

/// F5, I9: a request that finds no free place is refused at once. The others are served. A client that leaves makes
/// room.
#[tokio::test(start_paused = true)]
async fn over_the_cap_is_refused_and_the_flight_goes_on() {
    let world = World::new(1, 54);
    world.origin.set_delay_ms(10_000);
    let ask = world.ask(READ);
    let cap = usize::try_from(FOLLOWERS_MAX).unwrap();
    let mut waiting: Vec<_> = (0..=cap).map(|_| world.send(0, &ask)).collect();
    world.pass(10).await;
    let (refused, waited) = crowd(&world, &ask, 25).await;
    assert!(refused.iter().all(|outcome| failure_in(outcome) == Some(FailureKind::Overloaded)));
    assert!(waited < Duration::from_millis(10), "{waited:?}: they waited");

    for leaver in waiting.drain(1..=5) {
        leaver.abort();
        assert!(leaver.await.unwrap_err().is_cancelled());
    }
    waiting.extend((0..5).map(|_| world.send(0, &ask)));
    for outcome in waiting {
        assert_eq!(version_in(&outcome.await.unwrap()), Some(1));
    }
    assert_eq!(world.origin.runs(), 1);
}

/// I6: a text with syntax that Hopcache does not know runs for each request, whatever the server says about it.
#[tokio::test(start_paused = true)]
async fn a_text_that_is_not_read_runs_for_each_request() {
    let world = World::new(2, 91);
    for (text, reason) in [
        ("MATCH (n) FROB n.x > 1 RETURN n", BypassReason::Unreadable),
        ("RETURN s'{rand()}' AS x", BypassReason::Unreadable),
        (
            "RETURN 1 AS a NEXT TERMINATE TRANSACTIONS 'x' YIELD message RETURN a",
            BypassReason::Administration,
        ),
        ("RETURN time({hour: 12, timezone: 'Europe/Berlin'}) AS t", BypassReason::VolatileFunction),
    ] {
        let runs = world.origin.runs();
        for node in [0, 1, 0] {
            let outcome = world.send(node, &world.ask(text)).await.unwrap();
            assert_eq!(outcome.how.class, Class::Bypass(Reason::Text(reason)), "{text}");
        }
        assert_eq!(world.origin.runs() - runs, 3, "{text}");
    }
}
