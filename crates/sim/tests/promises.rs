//! The engine's promises on a simulated cluster, under faults. Each test cites its promise (I…) or fault (F…).
#![allow(clippy::unwrap_used, reason = "test code")]

use hopcache_core::lease::{Commit, GrantKind};
use hopcache_core::time::Millis;
use hopcache_engine::ask::{Freshness, RequestBypass};
use hopcache_engine::event::Event;
use hopcache_engine::outcome::{Answer, Class, Detail, FailureKind, Kept, Outcome, Reason, Role};
use hopcache_engine::ports::{Neo4jFailure, OriginFault, Scope, StoreError};
use hopcache_sim::World;
use hopcache_sim::world::net::NetWeather;
use hopcache_sim::world::origin::OriginBehavior;
use hopcache_sim::world::process::Power;
use hopcache_sim::world::store::{Mode, Weather};

const READ: &str = "MATCH (n) RETURN n.version AS version";

#[expect(clippy::panic, reason = "a test's own failure")]
fn body(outcome: &Outcome) -> String {
    match &outcome.answer {
        Answer::Body(body) => String::from_utf8_lossy(body).into_owned(),
        Answer::Failed(failure) => panic!("no answer: {failure:?}"),
    }
}

#[expect(clippy::panic, reason = "a test's own failure")]
fn failure(outcome: &Outcome) -> FailureKind {
    match &outcome.answer {
        Answer::Failed(failure) => failure.kind.clone(),
        Answer::Body(body) => panic!("an answer: {}", String::from_utf8_lossy(body)),
    }
}

fn is_value(outcome: &Outcome, version: i64) -> bool {
    body(outcome).contains(&format!("[[{version},"))
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
    for node in &world.nodes {
        node.routing.set(std::slice::from_ref(&node.engine.me().node));
    }
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

/// F1, I7: the owner is killed in mid-run. The next owner steals the lease, since the holder's node is dead.
#[tokio::test(start_paused = true)]
async fn a_killed_owner_costs_one_more_run_and_no_waiting_for_the_lease() {
    kill_the_owner(NetWeather::default()).await;
}

/// The same when its address dies with it, and no host is left to refuse a probe: its connections broke.
#[tokio::test(start_paused = true)]
async fn a_killed_owner_whose_address_vanishes_costs_no_waiting_either() {
    kill_the_owner(NetWeather { dead_are_silent: true, ..NetWeather::default() }).await;
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

/// F2, I3: a holder stopped past its lease wakes up, commits, and is refused; the newer value stays.
#[tokio::test(start_paused = true)]
async fn a_stopped_holder_that_wakes_up_is_fenced() {
    let world = World::new(3, 5);
    world.origin.set_delay_ms(1_000);
    let ask = world.ask(READ);
    let owner = world.owner_of(&ask);
    let other = (owner + 1) % 3;
    let first = world.send(owner, &ask);
    world.pass(500).await;
    world.nodes[owner].process.set(Power::Paused);
    for node in world.nodes.iter().filter(|node| node.engine.me() != world.nodes[owner].engine.me()) {
        let left: Vec<_> = world
            .nodes
            .iter()
            .map(|each| each.engine.me().node.clone())
            .filter(|name| *name != world.nodes[owner].engine.me().node)
            .collect();
        node.routing.set(&left);
    }
    world.origin.set_version(2);
    let second = world.send(other, &ask).await.unwrap();
    assert!(is_value(&second, 2));
    world.nodes[owner].process.set(Power::On);
    assert!(is_value(&first.await.unwrap(), 1), "its own waiter gets its result");
    let outcomes: Vec<_> = world.store.commits().into_iter().map(|(_, _, commit)| commit).collect();
    assert_eq!(outcomes, [Commit::Stored, Commit::Fenced]);
    assert!(is_value(&world.send(other, &ask).await.unwrap(), 2));
    assert!(
        is_value(&world.send(owner, &ask).await.unwrap(), 2),
        "its memory has no copy of the refused result"
    );
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

/// F4: the leader panics; the waiters compete again and one of them leads.
#[tokio::test(start_paused = true)]
async fn a_panicking_leader_strands_nobody() {
    let world = World::new(1, 7);
    world.origin.set_behavior(OriginBehavior::Panic(1));
    let ask = world.ask(READ);
    let sent: Vec<_> = (0..20).map(|_| world.send(0, &ask)).collect();
    for outcome in sent {
        assert!(is_value(&outcome.await.unwrap(), 1));
    }
    assert_eq!(world.origin.runs(), 2);
}

/// I11, F27: an error of the statement goes to the flight's followers and is not kept.
#[tokio::test(start_paused = true)]
async fn a_statement_error_is_shared_and_not_cached() {
    let world = World::new(1, 8);
    let neo4j_failure = Neo4jFailure {
        code: "Neo.ClientError.Statement.ArithmeticError".into(),
        message: "/ by zero".into(),
    };
    world.origin.set_behavior(OriginBehavior::Fault(OriginFault::Failed(neo4j_failure.clone())));
    let ask = world.ask(READ);
    let sent: Vec<_> = (0..10).map(|_| world.send(0, &ask)).collect();
    for outcome in sent {
        assert_eq!(failure(&outcome.await.unwrap()), FailureKind::Neo4j(neo4j_failure.clone()));
    }
    assert_eq!(world.origin.runs(), 1);
    world.origin.set_behavior(OriginBehavior::Well);
    assert!(is_value(&world.send(0, &ask).await.unwrap(), 1));
}

/// F25: after a failure of the origin itself one follower retries; then all get the failure.
#[tokio::test(start_paused = true)]
async fn a_leaders_bad_luck_is_tried_once_more() {
    let world = World::new(1, 9);
    world.origin.set_behavior(OriginBehavior::Fault(OriginFault::Unreachable("down".into())));
    let ask = world.ask(READ);
    let sent: Vec<_> = (0..10).map(|_| world.send(0, &ask)).collect();
    for outcome in sent {
        assert_eq!(failure(&outcome.await.unwrap()), FailureKind::OriginUnreachable);
    }
    assert_eq!(world.origin.runs(), 2);
}

/// I5: another principal is another key, another flight, another answer.
#[tokio::test(start_paused = true)]
async fn principals_do_not_share() {
    let world = World::new(1, 10);
    let (alice, bob) = (world.ask_as(READ, "alice"), world.ask_as(READ, "bob"));
    assert_ne!(alice.query.key, bob.query.key);
    let first = world.send(0, &alice);
    let second = world.send(0, &bob);
    first.await.unwrap();
    second.await.unwrap();
    assert_eq!(world.origin.runs(), 2);
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

/// I6: a summary that shows an update is believed over the server's earlier word.
#[tokio::test(start_paused = true)]
async fn a_read_that_updates_is_not_stored() {
    let world = World::new(1, 12);
    world.origin.set_behavior(OriginBehavior::Update);
    let ask = world.ask(READ);
    let outcome = world.send(0, &ask).await.unwrap();
    assert_eq!(outcome.how.detail, Some(Detail::Updates));
    assert!(world.store.commits().is_empty());
    let again = world.send(0, &ask).await.unwrap();
    assert_eq!(again.how.class, Class::Bypass(Reason::Write));
}

/// A text that cannot be planned fails with the server's error for it, once for all waiters.
#[tokio::test(start_paused = true)]
async fn a_broken_statement_is_run_in_read_mode_for_its_own_message() {
    let world = World::new(1, 13);
    let neo4j_failure =
        Neo4jFailure { code: "Neo.ClientError.Statement.SyntaxError".into(), message: "at 1:7".into() };
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
    let stored = world.store.commits().into_iter().filter(|(_, _, commit)| *commit == Commit::Stored).count();
    assert_eq!(stored, 1);
}

/// A purge that did not reach a node directly reaches it through the store's log.
#[tokio::test(start_paused = true)]
async fn a_node_that_was_not_told_of_a_purge_reads_of_it() {
    let world = World::new(2, 16);
    let ask = world.ask(READ);
    let owner = world.owner_of(&ask);
    let engine = std::sync::Arc::clone(&world.nodes[owner].engine);
    tokio::spawn(async move { engine.path().follow_invalidations().await });
    world.send(owner, &ask).await.unwrap();
    world.net.set_cut(&world.nodes[owner].engine.me().node, true);
    let purged = world.nodes[1 - owner].engine.invalidate().purge(&Scope::All).await;
    assert_eq!(purged.unreached, 1);
    world.pass(600).await;
    world.origin.set_version(2);
    assert!(is_value(&world.send(owner, &ask).await.unwrap(), 2));
}

/// Stale while revalidate: past the soft TTL everyone is served at once, and one refresh runs.
#[tokio::test(start_paused = true)]
async fn a_stale_copy_is_served_while_one_refresh_runs() {
    let world = World::new(3, 17);
    let ask = world.ask(READ);
    world.send(0, &ask).await.unwrap();
    world.origin.set_version(2);
    world.pass(61_000).await;
    let ask = world.ask(READ);
    let started = tokio::time::Instant::now();
    let sent: Vec<_> = (0..90).map(|client| world.send(client % 3, &ask)).collect();
    for outcome in sent {
        let outcome = outcome.await.unwrap();
        assert!(is_value(&outcome, 1));
        assert_eq!((outcome.how.class, outcome.how.detail), (Class::Hit, Some(Detail::Stale)));
        assert!(outcome.how.ttl_ms.unwrap() < 0);
    }
    assert!(started.elapsed() < Millis(50).duration(), "no request waited for the refresh");
    world.pass(200).await;
    assert_eq!(world.origin.runs(), 2);
    assert!(is_value(&world.send(0, &ask).await.unwrap(), 2));
}

/// A stale copy stays in use after a failed refresh, and not every hit asks the origin.
#[tokio::test(start_paused = true)]
async fn a_failing_refresh_keeps_the_stale_copy_and_is_not_tried_for_every_hit() {
    let world = World::new(1, 22);
    world.send(0, &world.ask(READ)).await.unwrap();
    world.origin.set_behavior(OriginBehavior::Fault(OriginFault::Unreachable("down".into())));
    world.pass(61_000).await;
    let before = world.origin.runs();
    let ask = world.ask(READ);
    for _ in 0..100 {
        assert!(is_value(&world.send(0, &ask).await.unwrap(), 1));
        world.pass(20).await;
    }
    let tried = world.origin.runs() - before;
    assert!((1..=4).contains(&tried), "{tried} runs in 2 s of an origin that is down");
    world.origin.set_behavior(OriginBehavior::Well);
    world.origin.set_version(2);
    world.pass(2_000).await;
    world.send(0, &ask).await.unwrap();
    world.pass(200).await;
    assert!(is_value(&world.send(0, &ask).await.unwrap(), 2));
}

/// I4: after grace nothing of the old value is served.
#[tokio::test(start_paused = true)]
async fn nothing_is_served_after_grace() {
    let world = World::new(2, 18);
    world.send(0, &world.ask(READ)).await.unwrap();
    world.origin.set_version(2);
    world.pass(91_000).await;
    assert!(is_value(&world.send(0, &world.ask(READ)).await.unwrap(), 2));
}

/// I10, F39: a changed entry in the store is not served. It is removed and read again.
#[tokio::test(start_paused = true)]
async fn a_corrupt_entry_is_a_miss() {
    let world = World::new(1, 19);
    let ask = world.ask(READ);
    world.send(0, &ask).await.unwrap();
    world.store.corrupt(&ask.query.key);
    world.nodes[0].memory.forget_all();
    world.origin.set_version(2);
    assert!(is_value(&world.send(0, &ask).await.unwrap(), 2));
    assert_eq!(world.origin.runs(), 2);
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

/// A follower's role and a leader's role are distinct; both are misses.
#[tokio::test(start_paused = true)]
async fn followers_are_marked_as_collapsed() {
    let world = World::new(1, 21);
    let ask = world.ask(READ);
    let sent: Vec<_> = (0..5).map(|_| world.send(0, &ask)).collect();
    let mut roles = Vec::new();
    for outcome in sent {
        if let Class::Miss { role, .. } = outcome.await.unwrap().how.class {
            roles.push(role);
        }
    }
    assert_eq!(roles.iter().filter(|role| **role == Role::Led).count(), 1);
    assert_eq!(roles.len(), 5);
}

/// Same seed, same world: the order of everything is the same.
#[test]
fn the_same_seed_gives_the_same_run() {
    let trace = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.unwrap().block_on(async {
            let world = World::new(3, 99);
            let asks: Vec<_> =
                (0..20).map(|each| world.ask(&format!("MATCH (n {{id: {each}}}) RETURN n"))).collect();
            let sent: Vec<_> =
                asks.iter().enumerate().map(|(place, ask)| world.send(place % 3, ask)).collect();
            let mut trace = Vec::new();
            for outcome in sent {
                trace.push(format!("{:?}", outcome.await.unwrap().how));
            }
            trace.push(format!("{:?}", world.store.commits()));
            trace
        })
    };
    assert_eq!(trace(), trace());
}
