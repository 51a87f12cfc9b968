//! Faults of the origin on a simulated cluster (F25, F26, F27): which node runs the query, which requests fail, and
//! when a key is tried again. The breaker before a real Neo4j is in `crates/neo4j/src/gate.rs`; here an unreachable
//! origin fails at once.

use hopcache_core::limits::{BACKOFF_MS_FIRST, BACKOFF_MS_MAX};

use crate::prelude::*;

fn transient() -> OriginFault {
    OriginFault::Transient(said("Neo.TransientError.Transaction.DeadlockDetected"))
}

fn cut() -> OriginFault {
    OriginFault::Cut("reset".to_owned())
}

fn held_back_ms(outcome: &Outcome) -> Option<u64> {
    match failure(outcome) {
        FailureKind::HeldBack { left_ms } => Some(left_ms.0),
        _ => None,
    }
}

async fn crowd(world: &World, size: usize) -> Vec<Outcome> {
    let ask = world.ask(READ);
    let sent: Vec<_> = (0..size).map(|client| world.send(client % world.nodes.len(), &ask)).collect();
    let mut outcomes = Vec::new();
    for outcome in sent {
        outcomes.push(outcome.await.unwrap());
    }
    outcomes
}

/// F26: 300 clients of three nodes wait for a run that times out. It is one run, and all clients get its error.
#[tokio::test(start_paused = true)]
async fn a_run_that_times_out_is_one_run_for_all_who_wait() {
    let world = World::new(3, 1);
    world.origin.set_delay_ms(2_000);
    world.origin.set_behavior(OriginBehavior::Fault(OriginFault::TimedOut));
    let began = tokio::time::Instant::now();
    for outcome in crowd(&world, 300).await {
        assert_eq!(failure(&outcome), FailureKind::OriginTimedOut);
    }
    assert_eq!(world.origin.runs(), 1);
    assert!(began.elapsed() < Millis(2_100).duration(), "no request waited for a second run");
    assert!(world.store.commits().is_empty());
    // A request that comes now fails at once at any node, and nothing runs.
    let began = tokio::time::Instant::now();
    for outcome in crowd(&world, 300).await {
        assert!(held_back_ms(&outcome).is_some_and(|left| (1..=BACKOFF_MS_FIRST).contains(&left)));
    }
    assert_eq!(world.origin.runs(), 1);
    assert!(began.elapsed() < Millis(50).duration());
    let held_back = |event: &Event| matches!(event, Event::HeldBack);
    assert!(world.nodes.iter().map(|node| node.events.count(held_back)).sum::<usize>() >= 1, "counted");
}

/// F26: impatient clients for two minutes. Runs grow with the logarithm of the time, then with the bound.
#[tokio::test(start_paused = true)]
async fn a_key_that_never_answers_runs_seldom_and_recovers_at_once() {
    let world = World::new(3, 2);
    world.origin.set_behavior(OriginBehavior::Fault(OriginFault::TimedOut));
    for _ in 0..2_400 {
        let outcomes = crowd(&world, 3).await;
        assert!(outcomes.iter().all(|outcome| !is_answered(outcome)));
        world.pass(50).await;
    }
    let runs = world.origin.runs();
    assert!((10..=8 + 2 * 130_000 / BACKOFF_MS_MAX as usize).contains(&runs), "{runs} runs in 2 min");
    // Well again: the pause at hand is the most that it costs.
    world.origin.set_behavior(OriginBehavior::Well);
    world.pass(BACKOFF_MS_MAX).await;
    assert!(crowd(&world, 30).await.iter().all(is_answered));
    assert_eq!(world.origin.runs(), runs + 1);
    // Success has cleared it: the next trouble begins with the first pause.
    world.nodes.iter().for_each(|node| node.memory.forget_all());
    world.origin.set_behavior(OriginBehavior::Fault(OriginFault::TimedOut));
    let mut ask = world.ask(READ);
    ask.freshness = Freshness { no_cache: true, ..Freshness::default() };
    assert_eq!(failure(&world.send(0, &ask).await.unwrap()), FailureKind::OriginTimedOut);
    let left = held_back_ms(&world.send(0, &ask).await.unwrap());
    assert!(left.is_some_and(|left| left <= BACKOFF_MS_FIRST), "{left:?}");
}

/// F27, F28: one follower retries after bad luck; then the key is held back.
#[tokio::test(start_paused = true)]
async fn bad_luck_is_tried_once_more_and_then_left_alone() {
    for (seed, fault) in [(3, cut()), (4, transient())] {
        let world = World::new(1, seed);
        world.origin.set_behavior(OriginBehavior::Fault(fault));
        for outcome in crowd(&world, 50).await {
            assert!(!is_answered(&outcome));
        }
        assert_eq!(world.origin.runs(), 2, "the leader's, and one for all its followers");
        assert!(crowd(&world, 50).await.iter().all(|outcome| held_back_ms(outcome).is_some()));
        assert_eq!(world.origin.runs(), 2);
        world.origin.set_behavior(OriginBehavior::Well);
        world.pass(BACKOFF_MS_FIRST).await;
        assert!(crowd(&world, 50).await.iter().all(is_answered));
        assert_eq!(world.origin.runs(), 3);
    }
}

/// F27, I11: an error of the statement does not count as a failure of the origin.
#[tokio::test(start_paused = true)]
async fn a_statement_error_holds_nothing_back() {
    let world = World::new(1, 6);
    let neo4j_failure = said("Neo.ClientError.Statement.ArithmeticError");
    world.origin.set_behavior(OriginBehavior::Fault(OriginFault::Failed(neo4j_failure.clone())));
    for run in 1..=5 {
        for outcome in crowd(&world, 20).await {
            assert_eq!(failure(&outcome), FailureKind::Neo4j(neo4j_failure.clone()));
        }
        assert_eq!(world.origin.runs(), run, "not kept either");
    }
    // And it ends a row of failures: the server answers again.
    world.origin.set_behavior(OriginBehavior::Fault(cut()));
    crowd(&world, 1).await;
    world.origin.set_behavior(OriginBehavior::Fault(OriginFault::Failed(neo4j_failure.clone())));
    crowd(&world, 1).await;
    world.origin.set_behavior(OriginBehavior::Fault(cut()));
    assert_eq!(failure(&crowd(&world, 1).await[0]), FailureKind::OriginCut);
    assert_eq!(failure(&crowd(&world, 1).await[0]), FailureKind::OriginCut, "a first failure, not a second");
}

/// F25: an origin that is away is its breaker's to pace: no key is held back, and all work when it is back.
#[tokio::test(start_paused = true)]
async fn an_origin_that_is_away_holds_no_key_back() {
    let world = World::new(3, 7);
    world.origin.set_delay_ms(1);
    world.origin.set_behavior(OriginBehavior::Fault(away()));
    for _ in 0..20 {
        for outcome in crowd(&world, 9).await {
            assert_eq!(failure(&outcome), FailureKind::OriginUnreachable);
        }
    }
    world.origin.set_behavior(OriginBehavior::Well);
    assert!(crowd(&world, 9).await.iter().all(is_answered));
}

/// F25, F26: a stale copy is served and marked, from memory and from the store. While the key is held back, nothing
/// refreshes it. Afterwards a refresh runs, and no request waits.
#[tokio::test(start_paused = true)]
async fn stale_copies_are_served_while_the_key_is_held_back() {
    let policy = hopcache_engine::Policy { grace: 10.0, ..default_policy() };
    let world = World::with_policy(2, 8, &policy);
    crowd(&world, 1).await;
    world.pass(61_000).await;
    world.origin.set_behavior(OriginBehavior::Fault(OriginFault::TimedOut));
    let before = world.origin.runs();
    for round in 0..600 {
        if round % 100 == 50 {
            // Memory forgets the entry, and the store still has it.
            committed(&world).await;
            world.nodes.iter().for_each(|node| node.memory.forget_all());
        }
        let began = tokio::time::Instant::now();
        for outcome in crowd(&world, 4).await {
            assert_eq!(outcome.how.class, Class::Hit, "{round}");
            // Only during the very first refresh no node knows yet that the origin fails.
            let known = if round < 5 { Detail::Stale } else { Detail::StaleIfError };
            let details = [Some(known), Some(Detail::StaleIfError)];
            assert!(details.contains(&outcome.how.detail), "{round}: {:?}", outcome.how);
            assert!(outcome.how.ttl_ms.unwrap() < 0);
        }
        assert!(began.elapsed() < Millis(50).duration(), "round {round}: waited {:?}", began.elapsed());
        world.pass(100).await;
    }
    let tried = world.origin.runs() - before;
    assert!((3..=24).contains(&tried), "{tried} refreshes of a key that times out, in a minute");
    let seen = &world.origin.runs_seen()[before..];
    for (failures, (earlier, later)) in seen.iter().zip(&seen[1..]).enumerate() {
        let pause_ms = (BACKOFF_MS_FIRST << failures.min(20)).min(BACKOFF_MS_MAX) / 2;
        let gap = later.began.since(earlier.began);
        assert!(gap >= Millis(pause_ms), "refresh {} after only {gap:?}", failures + 2);
    }
    world.origin.set_behavior(OriginBehavior::Well);
    world.origin.set_version(2);
    world.pass(BACKOFF_MS_MAX + 2 * REFRESH_RETRY_MS).await;
    crowd(&world, 4).await;
    world.pass(1_000).await;
    for outcome in crowd(&world, 4).await {
        assert_eq!((outcome.how.class, outcome.how.detail), (Class::Hit, None));
    }
}

/// F26 with rings that disagree (F9): each node finds out by one run of its own, and no more.
#[tokio::test(start_paused = true)]
async fn with_rings_that_disagree_each_node_tries_once() {
    let world = World::new(3, 9);
    each_owns_all(&world);
    world.origin.set_delay_ms(500);
    world.origin.set_behavior(OriginBehavior::Fault(OriginFault::TimedOut));
    assert!(crowd(&world, 300).await.iter().all(|outcome| !is_answered(outcome)));
    assert_eq!(world.origin.runs(), 3, "one lease after the other");
    let seen = world.origin.runs_seen();
    for (earlier, later) in seen.iter().zip(&seen[1..]) {
        assert!(later.began >= earlier.began + Millis(500), "the lease kept them apart");
    }
}

/// Other keys know nothing of it.
#[tokio::test(start_paused = true)]
async fn one_keys_trouble_is_no_others() {
    let world = World::new(1, 10);
    world.origin.set_behavior(OriginBehavior::Fault(OriginFault::TimedOut));
    crowd(&world, 10).await;
    world.origin.set_behavior(OriginBehavior::Well);
    let other = world.send(0, &world.ask("MATCH (m) RETURN m")).await.unwrap();
    assert!(is_answered(&other));
    assert!(held_back_ms(&crowd(&world, 1).await[0]).is_some());
}

/// `hopcache_origin_runs_total` counts statements that went to Neo4j. A statement that found no slot does not count;
/// every other one does, with any end.
#[tokio::test(start_paused = true)]
async fn a_run_that_was_never_sent_is_not_counted_as_one() {
    let counted = async |fault: OriginFault| {
        let world = World::new(1, 1);
        world.origin.set_behavior(OriginBehavior::Fault(fault));
        for statement in [READ, "CREATE (n)"] {
            let outcome = world.send(0, &world.ask(statement)).await.unwrap();
            assert!(matches!(outcome.answer, Answer::Failed(_)));
        }
        let events = &world.nodes[0].events;
        let faults = events.count(|event| matches!(event, Event::OriginFault(_)));
        assert_eq!(faults, 2, "both were tried, and are counted");
        events.count(|event| matches!(event, Event::OriginRun { .. }))
    };
    for never_sent in [OriginFault::Overloaded, OriginFault::TooManyRuns, away()] {
        assert_eq!(counted(never_sent).await, 0);
    }
    for sent in [OriginFault::TimedOut, cut(), transient()] {
        assert_eq!(counted(sent).await, 2);
    }
}
