//! The engine's promises on a simulated cluster, under faults. Each test cites its promise (I…) or fault (F…).

use hopcache_core::lease::GrantKind;
use hopcache_engine::policy::ClassifiesBy;
use hopcache_engine::ports::StoreError;
use hopcache_sim::world::store::Mode;

use crate::prelude::*;

fn is_value(outcome: &Outcome, expected: i64) -> bool {
    version(outcome) == expected
}

/// I1: one run, however many clients on however many nodes ask; then hits without store or origin.
#[tokio::test(start_paused = true)]
async fn one_run_for_three_hundred_clients_on_three_nodes() {
    let world = World::new(3, 1);
    let ask = world.ask(READ);
    let sent: Vec<_> = (0..300).map(|client| world.send(client % 3, &ask)).collect();
    for outcome in sent {
        assert!(is_value(&outcome.await.unwrap(), 1));
    }
    assert_eq!(world.origin.runs(), 1);
    assert_eq!(world.origin.kinds(), 1, "the server is asked once what the statement is");
    assert_eq!(world.net.forwards(), 2, "each other node forwards once for all its clients");

    let grants = world.store.grants();
    for node in 0..3 {
        let outcome = world.send(node, &ask).await.unwrap();
        assert_eq!(outcome.how.class, Class::Hit);
    }
    assert_eq!(world.store.grants(), grants, "a hit does not touch the store");
    assert_eq!(world.origin.runs(), 1);
}

/// I1 when the rings disagree (F9): everybody takes itself for the owner, and the lease decides.
#[tokio::test(start_paused = true)]
async fn one_run_by_lease_when_every_node_takes_itself_for_the_owner() {
    let world = World::new(3, 2);
    each_owns_all(&world);
    let ask = world.ask(READ);
    let sent: Vec<_> = (0..30).map(|client| world.send(client % 3, &ask)).collect();
    for outcome in sent {
        assert!(is_value(&outcome.await.unwrap(), 1));
    }
    assert_eq!(world.origin.runs(), 1);
    assert_eq!(world.net.forwards(), 0);
}

/// I8: two nodes that take each other for the owner neither loop nor wait for each other.
#[tokio::test(start_paused = true)]
async fn nodes_that_take_each_other_for_the_owner_both_answer() {
    let world = World::new(2, 3);
    let names: Vec<_> = world.nodes.iter().map(|node| node.engine.me().node.clone()).collect();
    world.nodes[0].routing.set(&names[1..]);
    world.nodes[1].routing.set(&names[..1]);
    let ask = world.ask(READ);
    let first = world.send(0, &ask);
    let second = world.send(1, &ask);
    assert!(is_value(&first.await.unwrap(), 1));
    assert!(is_value(&second.await.unwrap(), 1));
    assert_eq!(world.origin.runs(), 1);
    assert_eq!(world.net.forwards(), 2, "one hop each");
}

/// F1, I7: the owner is killed in mid-run. The next owner steals the lease, since the holder's node is dead: a host refuses the
/// probe, or its address dies with it, and its connections broke.
#[tokio::test(start_paused = true)]
async fn a_killed_owner_costs_one_more_run_and_no_waiting_for_the_lease() {
    for dead_are_silent in [false, true] {
        kill_the_owner(NetWeather { dead_are_silent, ..NetWeather::default() }).await;
    }
}

async fn kill_the_owner(weather: NetWeather) {
    let world = World::new(3, 4);
    world.net.set_weather(weather);
    world.origin.set_delay_ms(1_000);
    let ask = world.ask(READ);
    let owner = world.owner_of(&ask);
    let started = tokio::time::Instant::now();
    let sent: Vec<_> = (0..3).filter(|node| *node != owner).map(|node| world.send(node, &ask)).collect();
    world.pass(500).await;
    assert_eq!(world.origin.runs(), 1, "the fault happens in mid-run");
    world.nodes[owner].process.set(Power::Off);
    for outcome in sent {
        assert!(is_value(&outcome.await.unwrap(), 1));
    }
    assert_eq!(world.origin.runs(), 2);
    assert!(started.elapsed() < Millis(500 + 500 + 1_000).duration(), "I7: {:?}", started.elapsed());
    let stolen = |event: &Event| matches!(event, Event::LeaseGrant(GrantKind::Stolen));
    assert_eq!(world.nodes.iter().map(|node| node.events.count(stolen)).sum::<usize>(), 1);
}

/// F3: the client whose request leads goes away, and the flight goes on.
#[tokio::test(start_paused = true)]
async fn a_leading_client_that_leaves_cancels_nothing() {
    let world = World::new(1, 6);
    let ask = world.ask(READ);
    let leads = world.send(0, &ask);
    world.pass(10).await;
    let follows = world.send(0, &ask);
    world.pass(10).await;
    leads.abort();
    assert!(is_value(&follows.await.unwrap(), 1));
    assert_eq!(world.origin.runs(), 1);
}

/// I6: writes are neither collapsed nor cached, by the lexer's classification or by the server's.
#[tokio::test(start_paused = true)]
async fn writes_run_each_for_itself() {
    let world = World::new(3, 11);
    for statement in ["CREATE (n:Thing)", "MATCH (n:SLY) RETURN n"] {
        let before = world.origin.runs();
        let ask = world.ask(statement);
        let sent: Vec<_> = (0..30).map(|client| world.send(client % 3, &ask)).collect();
        for outcome in sent {
            assert_eq!(outcome.await.unwrap().how.class, Class::Bypass(Reason::Write));
        }
        assert_eq!(world.origin.runs() - before, 30, "{statement}");
    }
    assert!(world.store.commits().is_empty());
}

/// I6: behind a node's first text, a text's own run asks the server what it is, once for all who wait. Where the server refuses it as a
/// write, `EXPLAIN` is asked, and each client runs it for itself.
#[tokio::test(start_paused = true)]
async fn the_first_run_of_a_text_says_what_it_is() {
    let world = World::new(1, 16);
    world.send(0, &world.ask(READ)).await.unwrap();
    assert_eq!((world.origin.kinds(), world.origin.runs()), (1, 1));
    for (statement, kinds, runs) in [
        ("MATCH (next) RETURN next", 1, 2),
        ("MATCH (n:SLY) RETURN n", 2, 12),
        ("MATCH (n:SLY) RETURN n", 2, 22),
        // It is found to change something, although the server took it for a read.
        ("MATCH (n:DRIFTS) RETURN n", 2, 23),
        ("MATCH (n:DRIFTS) RETURN n", 2, 33),
    ] {
        let ask = world.ask(statement);
        let sent: Vec<_> = (0..10).map(|_| world.send(0, &ask)).collect();
        for outcome in sent {
            outcome.await.unwrap();
        }
        assert_eq!((world.origin.kinds(), world.origin.runs()), (kinds, runs), "{statement}");
    }
    committed(&world).await;
    assert_eq!(world.store.commits().len(), 2);
}

/// A server that is not Neo4j: where the operator says that words decide, it is never asked, and a run that reports a change is believed.
#[tokio::test(start_paused = true)]
async fn where_words_decide_the_server_is_not_asked() {
    let policy = Policy { classifies_by: ClassifiesBy::Words, ..default_policy() };
    let world = World::with_policy(1, 17, &policy);
    for (statement, runs) in [
        ("MATCH (n) RETURN n", 1),
        ("optional match (n) RETURN n", 2),
        // Not these words.
        ("UNWIND [1] AS n RETURN n", 12),
        // A possible write, whatever the first word is.
        ("MATCH (n) RETURN n; CREATE (m)", 22),
        ("MATCH (n:DRIFTS) RETURN n", 23),
        ("MATCH (n:DRIFTS) RETURN n", 33),
    ] {
        let ask = world.ask(statement);
        let sent: Vec<_> = (0..10).map(|_| world.send(0, &ask)).collect();
        for outcome in sent {
            outcome.await.unwrap();
        }
        assert_eq!((world.origin.kinds(), world.origin.runs()), (0, runs), "{statement}");
    }
    committed(&world).await;
    assert_eq!(world.store.commits().len(), 2);
}

/// A text that cannot be planned fails with the server's error for it, once for all waiters.
#[tokio::test(start_paused = true)]
async fn a_broken_statement_is_run_in_read_mode_for_its_own_message() {
    let world = World::new(1, 13);
    let neo4j_failure = said("Neo.ClientError.Statement.SyntaxError");
    world.origin.set_behavior(OriginBehavior::Fault(OriginFault::Failed(neo4j_failure.clone())));
    let ask = world.ask("MATCH (BROKEN) RETURN 1");
    let sent: Vec<_> = (0..10).map(|_| world.send(0, &ask)).collect();
    for outcome in sent {
        assert_eq!(failure(&outcome.await.unwrap()), FailureKind::Neo4j(neo4j_failure.clone()));
    }
    assert_eq!(world.origin.runs(), 1);
}

/// F7, store down: flights still collapse, nothing is stored, a copy lives briefly; then all is as before.
#[tokio::test(start_paused = true)]
async fn without_the_store_flights_collapse_and_copies_are_brief() {
    let world = World::new(3, 14);
    world.store.set_down(true);
    let ask = world.ask(READ);
    let sent: Vec<_> = (0..90).map(|client| world.send(client % 3, &ask)).collect();
    for outcome in sent {
        let outcome = outcome.await.unwrap();
        assert!(is_value(&outcome, 1));
        assert!(matches!(outcome.how.class, Class::Miss { kept: Kept::Skipped, .. }));
        assert_eq!(outcome.how.detail, Some(Detail::Degraded));
    }
    assert_eq!(world.origin.runs(), 1);
    let owner = world.owner_of(&ask);
    assert!(!world.nodes[owner].engine.store().is_reachable());
    world.store.set_down(false);
    // The simulated memory keeps by the copy's own times; production's forgets after DEGRADED_TTL_MS.
    world.nodes[owner].engine.invalidate().purge(&Scope::Key(ask.query.key)).await;
    let outcome = world.send(0, &ask).await.unwrap();
    assert!(matches!(outcome.how.class, Class::Miss { kept: Kept::Stored, .. }));
    assert!(world.nodes[owner].engine.store().is_reachable());
}

/// A full store still answers reads. A late answer does not end that state: only a ping, which writes, ends it.
#[tokio::test(start_paused = true)]
async fn a_store_that_refuses_is_in_trouble_until_it_takes_a_write() {
    let world = World::new(1, 44);
    let engine = &world.nodes[0].engine;
    let mut read = world.ask(READ);
    read.freshness = Freshness { only_if_cached: true, ..Freshness::default() };
    let refuses = || matches!(engine.store().trouble(), Some(StoreError::Refused(_)));
    world.store.set_mode(Mode::Refusing);
    world.send(0, &world.ask(READ)).await.unwrap();
    assert!(refuses());
    world.store.set_weather(Weather { lost_answers: 1_000, ..Weather::default() });
    let faults = world.nodes[0].events.count(|event| *event == Event::StoreFault);
    world.nodes[0].memory.forget_all();
    world.send(0, &read).await.unwrap();
    assert_eq!(world.nodes[0].events.count(|event| *event == Event::StoreFault), faults + 1, "it was late");
    world.store.set_weather(Weather::default());
    world.send(0, &read).await.unwrap();
    assert!(refuses(), "it answered a read, and is as full as before");
    world.store.set_mode(Mode::Up);
    let follows = std::sync::Arc::clone(engine);
    tokio::spawn(async move { follows.path().follow_invalidations().await });
    world.pass(600).await;
    assert!(engine.store().is_reachable());
}

/// I3: a purge takes the lease, so a result from before it is not stored after it, nor kept in memory.
#[tokio::test(start_paused = true)]
async fn a_result_read_before_a_purge_does_not_outlive_it() {
    let world = World::new(3, 15);
    let ask = world.ask(READ);
    let owner = world.owner_of(&ask);
    let before = world.send(owner, &ask);
    world.pass(50).await;
    let purged = world.nodes[(owner + 1) % 3].engine.invalidate().purge(&Scope::Key(ask.query.key)).await;
    assert_eq!((purged.nodes, purged.unreached), (3, 0));
    world.origin.set_version(2);
    let after = world.send(owner, &ask);
    assert!(is_value(&before.await.unwrap(), 1), "a request from before the purge is served");
    assert!(
        is_value(&after.await.unwrap(), 2),
        "a request from after the purge does not join the old flight"
    );
    assert!(is_value(&world.send(owner, &ask).await.unwrap(), 2));
    committed(&world).await;
    let stored = world.store.commits().into_iter().filter(|(_, _, commit)| *commit == Commit::Stored).count();
    assert_eq!(stored, 1);
}

/// Request `Cache-Control`: no-cache reads after it came, no-store keeps nothing, max-age and
/// only-if-cached are kept to.
#[tokio::test(start_paused = true)]
async fn request_directives_are_kept_to() {
    let world = World::new(3, 20);
    let mut ask = world.ask(READ);
    ask.freshness = Freshness { only_if_cached: true, ..Freshness::default() };
    assert_eq!(failure(&world.send(0, &ask).await.unwrap()), FailureKind::NotCached);
    assert_eq!(world.origin.runs(), 0);

    ask.freshness = Freshness::default();
    ask.bypass = Some(RequestBypass::NoStore);
    let bypassed = world.send(0, &ask).await.unwrap();
    assert_eq!(bypassed.how.class, Class::Bypass(Reason::NoStore));
    assert!(world.store.commits().is_empty());

    ask.bypass = None;
    world.send(0, &ask).await.unwrap();
    world.origin.set_version(2);
    ask.freshness = Freshness { no_cache: true, ..Freshness::default() };
    assert!(is_value(&world.send(1, &ask).await.unwrap(), 2), "no-cache");
    ask.freshness = Freshness::default();
    assert!(is_value(&world.send(2, &ask).await.unwrap(), 2), "what no-cache read is stored");

    world.origin.set_version(3);
    world.pass(5_000).await;
    ask.freshness = Freshness { age_max_ms: Some(Millis(4_000)), ..Freshness::default() };
    assert!(is_value(&world.send(0, &ask).await.unwrap(), 3), "max-age");
    ask.freshness = Freshness { only_if_cached: true, ..Freshness::default() };
    assert!(is_value(&world.send(0, &ask).await.unwrap(), 3), "only-if-cached, and there is one");
}

/// A read that is never cached streams when its result has met the bound: a second run, which nobody notices. A function that no list
/// names may do something outside of the graph (I6): its statement runs once for each request.
#[tokio::test(start_paused = true)]
async fn what_calls_an_unknown_function_runs_once_for_a_request() {
    let world = World::new(1, 91);
    let path = world.nodes[0].engine.path();
    let held = async |statement: &str| path.request_held(&world.ask(statement), sim_now()).await;
    assert!(held("MATCH (n:HUGE) RETURN date()").await.is_err(), "it is streamed");
    assert_eq!(world.origin.runs(), 1);
    let statement = "MATCH (n:HUGE) RETURN date(), mine.send(n)";
    let outcome = held(statement).await.unwrap();
    assert!(matches!(failure(&outcome), FailureKind::TooLarge { .. }), "{outcome:?}");
    assert_eq!(world.origin.runs(), 2);
    assert!(held(statement).await.is_err(), "the next request streams it, and has not run it");
    let may_be_repeated: Vec<_> = world.origin.runs_seen().iter().map(|run| run.may_be_repeated).collect();
    assert_eq!(may_be_repeated, [true, false], "when its connection is cut");
}
