//! A request that joins another request's flight or forward keeps its own deadline, credentials and freshness.

use hopcache_core::limits::LEASE_MS_MAX;
use hopcache_engine::identity::Identity;
use hopcache_packstream::Value;
use hopcache_sim::check::record::What;

use crate::prelude::*;

fn other_than_owner(world: &World, ask: &Ask) -> usize {
    (world.owner_of(ask) + 1) % world.nodes.len()
}

/// A flight and a forward are shared; the deadline of the client that began it is not.
#[tokio::test(start_paused = true)]
async fn a_follower_waits_by_its_own_deadline() {
    for nodes in [1, 2] {
        let world = World::new(nodes, 31);
        world.origin.set_delay_ms(1_000);
        let patient = world.ask(READ);
        let mut hasty = patient.clone();
        hasty.deadline = sim_now() + Millis(100);
        let node = other_than_owner(&world, &patient);
        let first = world.send(node, &hasty);
        world.pass(10).await;
        let second = world.send(node, &patient);
        assert_eq!(failure_in(&first.await.unwrap()), Some(FailureKind::DeadlinePassed));
        assert_eq!(version_or_failure(&second.await.unwrap()), "1");
        assert_eq!(world.origin.runs(), 1, "the flight at the owner went on");
    }
}

/// The same request with another password: the same key.
fn with_password(ask: &Ask, password: u8) -> Ask {
    let mut query = (*ask.query).clone();
    query.identity = Arc::new(Identity { fingerprint: [password; 32], ..(*query.identity).clone() });
    Ask { query: Arc::new(query), ..ask.clone() }
}

fn refused() -> OriginFault {
    OriginFault::Unauthorized(said("Neo.ClientError.Security.Unauthorized"))
}

/// Failures for lack of room, at the highest load: 1,000 followers share one forward. If another try is sure to fail,
/// the one forward's failure answers all; otherwise one more forward does. If the owner cannot reach Neo4j, this node tries itself.
#[tokio::test(start_paused = true)]
async fn behind_a_forward_a_crowd_that_fails_does_not_ask_one_by_one() {
    let kinds = [
        (OriginFault::TooManyRuns, FailureKind::TooManyRuns, (1, 1)),
        (OriginFault::TimedOut, FailureKind::OriginTimedOut, (1, 1)),
        (OriginFault::Overloaded, FailureKind::Overloaded, (2, 2)),
        (away(), FailureKind::OriginUnreachable, (1, 3)),
    ];
    for (fault, expected, (forwards, runs)) in kinds {
        let world = World::new(2, 37);
        world.origin.set_behavior(OriginBehavior::Fault(fault));
        let ask = world.ask(READ);
        let node = other_than_owner(&world, &ask);
        let crowd: Vec<_> = (0..1_000).map(|_| world.send(node, &ask)).collect();
        for outcome in crowd {
            assert_eq!(failure_in(&outcome.await.unwrap()).as_ref(), Some(&expected));
        }
        assert_eq!(world.net.forwards(), forwards, "{expected:?}");
        assert_eq!(world.origin.runs(), runs, "{expected:?}");
    }
}

/// `stampede_events_total`: a crowd is counted at the node where it waits. At the owner, the flight has the one forward
/// as leader and no followers. A forward that is answered with a hit made no request wait for a run.
#[tokio::test(start_paused = true)]
async fn a_crowd_behind_a_forward_is_counted_where_it_waits() {
    let world = World::new(2, 61);
    let ask = world.ask(READ);
    let node = other_than_owner(&world, &ask);
    let landed = |node: usize| {
        let mut crowds = Vec::new();
        for followers in [0, 999] {
            let of =
                |event: &Event| matches!(event, Event::Landed { followers: those } if *those == followers);
            crowds.push(world.nodes[node].events.count(of));
        }
        crowds
    };
    for _ in 0..2 {
        let crowd: Vec<_> = (0..1_000).map(|_| world.send(node, &ask)).collect();
        for outcome in crowd {
            assert_eq!(version_or_failure(&outcome.await.unwrap()), "1");
        }
        assert_eq!((landed(node), landed(1 - node)), (vec![0, 1], vec![1, 0]));
    }
    assert_eq!((world.net.forwards(), world.origin.runs()), (2, 1));
}

/// The second forward is shared, and brings everybody else the answer.
#[tokio::test(start_paused = true)]
async fn behind_a_forward_the_second_try_is_shared() {
    let world = World::new(2, 38);
    world.origin.set_behavior(OriginBehavior::Fault(OriginFault::Overloaded));
    let ask = world.ask(READ);
    let node = other_than_owner(&world, &ask);
    let crowd: Vec<_> = (0..100).map(|_| world.send(node, &ask)).collect();
    world.pass(50).await;
    world.origin.set_behavior(OriginBehavior::Well);
    let mut answered = 0;
    for outcome in crowd {
        answered += usize::from(version_or_failure(&outcome.await.unwrap()) == "1");
    }
    assert_eq!(answered, 99, "all but the leader");
    assert_eq!((world.net.forwards(), world.origin.runs()), (2, 2));
}

/// I5: a scope has no password. Two leaders in a row have old passwords, and a follower of both has the right one. It
/// gets neither their refusal nor a give-up.
#[tokio::test(start_paused = true)]
async fn a_follower_never_takes_a_no_to_other_credentials() {
    let world = World::new(1, 39);
    world.origin.set_behavior(OriginBehavior::Fault(refused()));
    let ask = world.ask(READ);
    let old: Vec<_> = (1..=2).map(|password| world.send(0, &with_password(&ask, password))).collect();
    let right = world.send(0, &with_password(&ask, 3));
    world.pass(150).await;
    assert_eq!(world.origin.runs(), 2, "the second one leads");
    world.origin.set_behavior(OriginBehavior::Well);
    for outcome in old {
        assert!(matches!(failure_in(&outcome.await.unwrap()), Some(FailureKind::Neo4j(_))));
    }
    assert_eq!(version_or_failure(&right.await.unwrap()), "1");
}

/// Followers with the same credentials get the refusal at once, here and after a forward: after three refused log-ons
/// in a row Neo4j locks the user out.
#[tokio::test(start_paused = true)]
async fn a_no_to_the_same_credentials_is_one_run_for_all() {
    let world = World::new(2, 40);
    world.origin.set_behavior(OriginBehavior::Fault(refused()));
    let ask = world.ask(READ);
    let crowd: Vec<_> = (0..300).map(|client| world.send(client % 2, &ask)).collect();
    for outcome in crowd {
        assert!(matches!(failure_in(&outcome.await.unwrap()), Some(FailureKind::Neo4j(_))));
    }
    assert_eq!((world.origin.runs(), world.net.forwards()), (1, 1));
}

/// After a forward whose leader had other credentials, each follower asks with its own.
#[tokio::test(start_paused = true)]
async fn behind_a_forward_a_no_to_other_credentials_is_not_taken() {
    let world = World::new(2, 41);
    world.origin.set_behavior(OriginBehavior::Fault(refused()));
    let ask = world.ask(READ);
    let node = other_than_owner(&world, &ask);
    let old = world.send(node, &with_password(&ask, 1));
    world.pass(10).await;
    let right = world.send(node, &with_password(&ask, 2));
    world.pass(50).await;
    world.origin.set_behavior(OriginBehavior::Well);
    assert!(matches!(failure_in(&old.await.unwrap()), Some(FailureKind::Neo4j(_))));
    assert_eq!(version_or_failure(&right.await.unwrap()), "1");
}

/// A `no-cache` request during an outage takes nothing from requests that accept the kept copy.
#[tokio::test(start_paused = true)]
async fn a_read_anew_that_fails_leaves_the_copy() {
    let world = World::new(1, 42);
    let ask = world.ask(READ);
    world.send(0, &ask).await.unwrap();
    world.store.set_down(true);
    world.origin.set_behavior(OriginBehavior::Fault(away()));
    let mut anew = ask.clone();
    anew.freshness = Freshness { no_cache: true, ..Freshness::default() };
    assert_eq!(failure_in(&world.send(0, &anew).await.unwrap()), Some(FailureKind::OriginUnreachable));
    assert_eq!(version_or_failure(&world.send(0, &ask).await.unwrap()), "1");
}

/// F39: another writer keeps writing entries that fail their checksum. The flight waits between two reads, and gives
/// up.
#[tokio::test(start_paused = true)]
async fn entries_that_are_corrupt_again_and_again_keep_no_flight_for_ever() {
    let world = World::new(1, 43);
    let ask = world.ask(READ);
    world.send(0, &ask).await.unwrap();
    committed(&world).await;
    world.nodes[0].memory.forget_all();
    world.store.set_weather(Weather { delay_ms_max: 1, ..Weather::default() });
    world.store.corrupt_again_and_again(&ask.query.key);
    let began = sim_now();
    assert_eq!(failure_in(&world.send(0, &ask).await.unwrap()), Some(FailureKind::Overloaded));
    let most = default_policy().run_timeout_ms.0 + LEASE_MS_MAX + 1_000;
    assert!(sim_now().since(began) <= Millis(most));
    let facts = world.record.since(0);
    let removals = facts.iter().filter(|fact| matches!(fact.what, What::Invalidated { .. })).count();
    assert!((10..1_000).contains(&removals), "{removals} removals");
}

/// RFC 9111, 5.2.1: `max-age` holds for a request that joined a flight as for any other.
#[tokio::test(start_paused = true)]
async fn max_age_holds_for_a_follower() {
    let world = World::new(1, 33);
    world.send(0, &world.ask(READ)).await.unwrap();
    committed(&world).await;
    world.nodes[0].memory.forget_all();
    world.origin.set_version(2);
    world.pass(30_000).await;
    let plain = world.ask(READ);
    let mut young = plain.clone();
    young.freshness = Freshness { age_max_ms: Some(Millis(1_000)), ..Freshness::default() };
    let leads = world.send(0, &plain);
    let follows = world.send(0, &young);
    assert_eq!(version_or_failure(&leads.await.unwrap()), "1", "30 s old, and fresh");
    assert_eq!(version_or_failure(&follows.await.unwrap()), "2");
}

/// `max-stale=0` means fresh, also where others are served stale.
#[tokio::test(start_paused = true)]
async fn max_stale_holds_for_a_follower() {
    let world = World::new(1, 34);
    world.send(0, &world.ask(READ)).await.unwrap();
    committed(&world).await;
    world.nodes[0].memory.forget_all();
    world.origin.set_version(2);
    world.pass(70_000).await;
    let plain = world.ask(READ);
    let mut fresh = plain.clone();
    fresh.freshness = Freshness { stale_max_ms: Some(Millis::ZERO), ..Freshness::default() };
    let leads = world.send(0, &plain);
    let follows = world.send(0, &fresh);
    assert_eq!(leads.await.unwrap().how.detail, Some(Detail::Stale));
    assert_eq!(version_or_failure(&follows.await.unwrap()), "2");
}

/// `only-if-cached`: no node asks the origin for this request, even for a write. A stale entry within grace counts as
/// an entry, from memory or from the store.
#[tokio::test(start_paused = true)]
async fn only_if_cached_never_reaches_the_origin() {
    let world = World::new(2, 35);
    world.send(0, &world.ask(READ)).await.unwrap();
    world.pass(61_000).await;
    let before = world.origin.runs();
    let mut ask = world.ask(READ);
    ask.freshness = Freshness { only_if_cached: true, ..Freshness::default() };
    for forgets in [false, true] {
        if forgets {
            committed(&world).await;
            world.nodes.iter().for_each(|node| node.memory.forget_all());
        }
        for node in 0..2 {
            let outcome = world.send(node, &ask).await.unwrap();
            assert_eq!((outcome.how.class, outcome.how.detail), (Class::Hit, Some(Detail::Stale)));
        }
    }
    for (no_cache, stale_max_ms) in [(true, None), (false, Some(Millis::ZERO))] {
        ask.freshness = Freshness { only_if_cached: true, no_cache, stale_max_ms, ..Freshness::default() };
        assert_eq!(failure_in(&world.send(0, &ask).await.unwrap()), Some(FailureKind::NotCached));
    }
    for statement in ["MATCH (m) RETURN m.other", "CREATE (n) RETURN n", "RETURN rand()"] {
        let mut ask = world.ask(statement);
        ask.freshness = Freshness { only_if_cached: true, ..Freshness::default() };
        for node in 0..2 {
            assert_eq!(
                failure_in(&world.send(node, &ask).await.unwrap()),
                Some(FailureKind::NotCached),
                "{statement}"
            );
        }
    }
    world.pass(5_000).await;
    assert_eq!(world.origin.runs(), before, "no refresh either");
}

/// F39, I1, I10: a corrupt entry, fresh or stale, is read again, and costs no holder its lease.
#[tokio::test(start_paused = true)]
async fn a_corrupt_entry_is_replaced_under_the_lease() {
    for age_ms in [0, 61_000] {
        let world = World::new(1, 36);
        let ask = world.ask(READ);
        world.send(0, &ask).await.unwrap();
        committed(&world).await;
        world.nodes[0].memory.forget_all();
        world.store.corrupt(&ask.query.key);
        world.origin.set_version(2);
        world.pass(age_ms).await;
        assert_eq!(version_or_failure(&world.send(0, &world.ask(READ)).await.unwrap()), "2");
        assert_eq!(world.origin.runs(), 2);
        committed(&world).await;
        let stored = |(_, _, commit): &(_, _, Commit)| *commit == Commit::Stored;
        let stored = world.store.commits().iter().filter(|each| stored(each)).count();
        assert_eq!(stored, 2, "the second commit was not fenced by its own finder");
    }
}

/// `max-stale` and `max-age` accept a stale value also if only the store has it, as after an owner's death. They refuse
/// an older value. No request waits without need.
#[tokio::test(start_paused = true)]
async fn a_stale_entry_of_the_store_is_served_within_the_requests_own_limits() {
    let plain = Freshness::default();
    for (freshness, is_stale) in [
        (plain, true),
        (Freshness { stale_max_ms: Some(Millis(9_000)), ..plain }, true),
        (Freshness { age_max_ms: Some(Millis(70_000)), ..plain }, true),
        (Freshness { stale_max_ms: Some(Millis(3_000)), ..plain }, false),
        (Freshness { age_max_ms: Some(Millis(62_000)), ..plain }, false),
    ] {
        let world = World::new(1, 37);
        world.send(0, &world.ask(READ)).await.unwrap();
        world.pass(65_000).await;
        world.nodes[0].memory.forget_all();
        world.origin.set_version(2);
        let mut ask = world.ask(READ);
        ask.freshness = freshness;
        let outcome = world.send(0, &ask).await.unwrap();
        assert_eq!(outcome.how.detail == Some(Detail::Stale), is_stale, "{freshness:?}");
        assert_eq!(version_or_failure(&outcome), if is_stale { "1" } else { "2" }, "{freshness:?}");
        world.pass(5_000).await;
        assert_eq!(world.origin.runs(), 2, "refreshed, or run");
    }
}

/// `entry.ttl = 0`: an entry from a time with caching on is no answer.
#[tokio::test(start_paused = true)]
async fn with_caching_off_what_was_stored_before_is_not_served() {
    let mut world = World::new(1, 38);
    world.send(0, &world.ask(READ)).await.unwrap();
    let off = Policy { ttl_ms: Millis::ZERO, stale_if_error_ms: Millis(600_000), ..default_policy() };
    let start = Start {
        life: Life { node: 1, life: 0 },
        me: Holder { node: node_name(1).unwrap(), incarnation: Incarnation(7) },
        routing: SimRouting::new(&[node_name(1).unwrap()]),
        apart: Millis::ZERO,
    };
    let node = world.start(start, &off);
    world.nodes.push(node);
    world.origin.set_version(2);
    for freshness in
        [Freshness::default(), Freshness { stale_max_ms: Some(Millis(9_000)), ..Freshness::default() }]
    {
        let mut ask = world.ask(READ);
        ask.freshness = freshness;
        assert_eq!(version_or_failure(&world.send(1, &ask).await.unwrap()), "2");
    }
    let mut cached = world.ask(READ);
    cached.freshness = Freshness { only_if_cached: true, ..Freshness::default() };
    assert_eq!(failure_in(&world.send(1, &cached).await.unwrap()), Some(FailureKind::NotCached));
    world.origin.set_behavior(OriginBehavior::Fault(away()));
    let outcome = world.send(1, &world.ask(READ)).await.unwrap();
    assert_eq!(failure_in(&outcome), Some(FailureKind::OriginUnreachable), "nor in an outage");
}

/// A request that goes from node to node, and is answered at home in the end, counts once for the retry budget.
/// Otherwise failing hops would pay for their own retries, and the bound would be a multiple of its value.
#[tokio::test(start_paused = true)]
async fn a_request_pays_once_for_retries_however_many_nodes_it_asks() {
    let world = World::new(3, 71);
    let ask =
        |n: i64| world.ask_with(Value::Map(vec![("n".to_owned(), Value::Int(n))]), ("neo4j", READ, "ann"));
    let others: Vec<Ask> = (0..).map(ask).filter(|ask| world.owner_of(ask) != 0).take(420).collect();
    let (sick, keys) = others.split_at(20);
    [1, 2].into_iter().for_each(|to| world.net.set_way_cut(0, to, true));
    let everybody: Vec<_> = (0..3).filter_map(node_name).collect();
    for ask in sick {
        let hasty = Ask { deadline: sim_now() + Millis(500), ..ask.clone() };
        drop(world.send(0, &hasty));
        world.pass(1_100).await;
        // Its membership sees nothing wrong with them: probes are answered.
        world.nodes[0].routing.set(&everybody);
    }
    // The retry budget that these requests earned and used has expired.
    world.pass(15_000).await;
    assert_eq!(world.nodes[0].engine.peers().left_out().len(), 2, "both fail, and are left out");
    world.origin.set_behavior(OriginBehavior::Fault(away()));
    let runs = world.origin.runs();
    let fresh: Vec<Ask> =
        keys.iter().map(|ask| Ask { deadline: sim_now() + Millis(30_000), ..ask.clone() }).collect();
    let crowd: Vec<_> = fresh.iter().flat_map(|ask| [world.send(0, ask), world.send(0, ask)]).collect();
    for outcome in crowd {
        assert_eq!(failure_in(&outcome.await.unwrap()), Some(FailureKind::OriginUnreachable));
    }
    let retries = world.origin.runs() - runs - keys.len();
    // RETRIES_PER_S_MIN for each of RETRY_WINDOW_S seconds, and RETRY_PERCENT of 800 requests.
    assert!((200..=260).contains(&retries), "{retries} retries");
    assert!(world.nodes[0].events.count(|event| matches!(event, Event::RetryRefused)) > 0);
}
