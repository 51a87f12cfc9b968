//! Whose data: nodes with one key and one store before different Neo4j servers, or before one that is replaced or restored, serve
//! nothing of another database.

use hopcache_core::bookmark::DatabaseUuid;
use hopcache_core::node::NodeName;
use hopcache_sim::world::origin::{DATABASE, ScriptedOrigin};

use crate::prelude::*;

const OTHER: DatabaseUuid = DatabaseUuid([0xEE; 16]);
/// Longer than the watcher's interval, two looks and a telling.
const NOTICED_MS: u64 = 2 * FRESHNESS_LEASE_MS_DEFAULT + 2_000;

/// A node whose Neo4j has this address.
fn at(address: &str) -> Policy {
    let proofs = ProofSettings {
        watch_ms: Millis(500),
        life_ms_max: Millis(600_000),
        is_captured: false,
        is_marked: false,
    };
    Policy {
        origin: address.to_owned(),
        freshness_lease_ms: Some(Millis(FRESHNESS_LEASE_MS_DEFAULT)),
        proofs: Some(proofs),
        stale_if_error_ms: Millis(600_000),
        ..default_policy()
    }
}

/// A world without nodes, before a Neo4j that tells transactions.
fn empty(seed: u64, version: i64) -> World {
    let world = World::empty(seed);
    world.origin.tell_transactions(0);
    world.origin.set_version(version);
    world
}

/// From now on nodes start before another Neo4j. The former one.
fn before_another(world: &mut World, version: i64) -> Arc<ScriptedOrigin> {
    let other = Arc::new(ScriptedOrigin::new(Arc::clone(&world.record), 7));
    other.tell_transactions(0);
    other.replace(OTHER, version);
    std::mem::replace(&mut world.origin, other)
}

/// Starts a life of a node, with a ring of these nodes.
async fn start(world: &mut World, (node, life): (usize, u32), ring: &[usize], policy: &Policy) {
    let ring: Vec<NodeName> = ring.iter().filter_map(|node| node_name(*node)).collect();
    let incarnation = Incarnation(1 + node as u64 + 100 * u64::from(life));
    let start = Start {
        life: Life { node, life },
        me: Holder { node: node_name(node).unwrap(), incarnation },
        routing: SimRouting::new(&ring),
        apart: Millis::ZERO,
    };
    let handle = world.start(start, policy);
    let engine = Arc::clone(&handle.engine);
    tokio::spawn(async move { engine.path().follow_invalidations().await });
    if node < world.nodes.len() {
        world.nodes[node] = handle;
    } else {
        world.nodes.push(handle);
    }
    world.pass(10).await;
}

/// The node is killed, and starts again.
async fn restart(world: &mut World, (node, life): (usize, u32), policy: &Policy) {
    world.nodes[node].process.set(Power::Off);
    start(world, (node, life), &[node], policy).await;
}

fn asks(world: &World) -> Vec<Ask> {
    let deadline = sim_now() + Millis(1_000_000);
    (0..6).map(|n| Ask { deadline, ..world.ask(&format!("MATCH (n{n}) RETURN n{n}.version")) }).collect()
}

fn purges(world: &World) -> usize {
    let is_purge = |event: &Event| matches!(event, Event::Invalidation(_));
    world.nodes.iter().map(|node| node.events.count(is_purge)).sum()
}

/// A copied configuration: one key, one name, one store, and two Neo4j servers. Each cluster reads and writes its own, and gets hits.
#[tokio::test(start_paused = true)]
async fn two_clusters_on_one_store_before_two_servers() {
    let mut world = empty(901, 10);
    start(&mut world, (0, 0), &[0], &at("bolt://one:7687")).await;
    let one = before_another(&mut world, 1_000);
    start(&mut world, (1, 0), &[1], &at("bolt://other:7687")).await;
    one.count_exactly();
    world.origin.count_exactly();
    let asks = asks(&world);
    for round in 0..4 {
        let (of_one, of_other) = (i64::from(one.version()), i64::from(world.origin.version()));
        for ask in &asks {
            assert_eq!(version(&read(&world, 0, ask).await), of_one, "{round}");
            assert_eq!(version(&read(&world, 1, ask).await), of_other, "{round}");
        }
        let runs = (one.runs(), world.origin.runs());
        for ask in &asks {
            for node in 0..2 {
                assert!(is_hit(&read(&world, node, ask).await), "{round}");
            }
        }
        world.pass(NOTICED_MS).await;
        for ask in &asks {
            let outcome = read(&world, round % 2, ask).await;
            assert!(is_hit(&outcome), "{round}: {outcome:?}");
            // What was read before the first report is not proved.
            assert!(outcome.how.is_proved || round < 2, "{round}: {outcome:?}");
        }
        assert_eq!((one.runs(), world.origin.runs()), runs, "neither purges the other's");
        let wrote = read(&world, round % 2, &world.ask(WRITE)).await;
        assert!(matches!(wrote.answer, Answer::Body(_)));
    }
    let records = world.store.written();
    let of = |database| records.iter().filter(move |record| record.written.database() == database);
    assert!(of(DATABASE).count() > 0 && of(OTHER).count() > 0, "{records:?}");
    assert!(records.iter().all(|record| record.written.epoch().0 == 0), "{records:?}");
}

/// A restart with another `origin.uri`: nothing of the former Neo4j is served. With the same one, entries in Redis still are.
#[tokio::test(start_paused = true)]
async fn a_restart_before_another_server_takes_none_of_the_formers_entries() {
    let mut world = empty(902, 10);
    start(&mut world, (0, 0), &[0], &at("bolt://one:7687")).await;
    let asks = asks(&world);
    for ask in &asks {
        read(&world, 0, ask).await;
    }
    committed(&world).await;
    restart(&mut world, (0, 1), &at("bolt://one:7687")).await;
    let runs = world.origin.runs();
    for ask in &asks {
        assert!(is_hit(&read(&world, 0, ask).await));
    }
    assert_eq!(world.origin.runs(), runs);
    before_another(&mut world, 1_000);
    restart(&mut world, (0, 2), &at("bolt://other:7687")).await;
    for ask in &asks {
        assert_eq!(version(&read(&world, 0, ask).await), 1_000);
        assert!(is_hit(&read(&world, 0, ask).await));
    }
}

/// A node that starts in an outage serves what Redis has of its own `origin.uri`, and nothing of another one.
#[tokio::test(start_paused = true)]
async fn a_node_that_starts_in_an_outage_knows_its_database_from_the_store() {
    for (address, expected) in [("bolt://one:7687", Some(10)), ("bolt://other:7687", None)] {
        let mut world = empty(903, 10);
        start(&mut world, (0, 0), &[0], &at("bolt://one:7687")).await;
        let asks = asks(&world);
        for ask in &asks {
            read(&world, 0, ask).await;
        }
        committed(&world).await;
        let away = away();
        world.origin.set_behavior(OriginBehavior::Fault(away));
        world.origin.set_away(true);
        restart(&mut world, (0, 1), &at(address)).await;
        for ask in &asks {
            let outcome = read(&world, 0, ask).await;
            assert_eq!(version_in(&outcome), expected, "{address}: {outcome:?}");
        }
        world.pass(100_000).await;
        let dead = read(&world, 0, &asks[0]).await;
        assert_eq!(version_in(&dead), expected);
        assert_eq!(dead.how.detail == Some(Detail::StaleIfError), expected.is_some());
        // Neo4j is back, and was replaced meanwhile.
        world.origin.replace(OTHER, 500);
        world.origin.set_behavior(OriginBehavior::Well);
        world.origin.set_away(false);
        let cold = world.ask("MATCH (cold) RETURN cold.version");
        assert_eq!(version(&read(&world, 0, &cold).await), 500);
        for ask in &asks {
            assert_eq!(version(&read(&world, 0, ask).await), 500, "{address}");
        }
    }
}

/// Another server answers at the same address while the nodes run. One node watches, and tells the other, which only has hits; where
/// it cannot be told, the watcher's report shows it. Nothing of the former database stands in for an outage of the new one.
#[tokio::test(start_paused = true)]
async fn a_server_that_is_replaced_is_noticed_on_all_nodes() {
    for is_cut in [false, true] {
        let mut world = empty(904, 90);
        for node in 0..2 {
            start(&mut world, (node, 0), &[0, 1], &at("bolt://one:7687")).await;
        }
        let asks = asks(&world);
        let (unread, asks) = asks.split_last().unwrap();
        let owners: Vec<usize> = asks.iter().map(|ask| world.owner_of(ask)).collect();
        for _ in 0..2 {
            for (ask, owner) in
                asks.iter().chain([unread]).zip(owners.iter().chain([&world.owner_of(unread)]))
            {
                assert_eq!(version(&read(&world, *owner, ask).await), 90);
            }
        }
        world.pass(NOTICED_MS).await;
        for node in 0..2 {
            world.net.set_way_cut(node, 1 - node, is_cut);
        }
        world.origin.replace(OTHER, 200);
        world.pass(NOTICED_MS).await;
        for (ask, owner) in asks.iter().zip(&owners) {
            assert_eq!(version(&read(&world, *owner, ask).await), 200, "{is_cut}");
        }
        let purged = purges(&world);
        world.pass(10_000).await;
        for (ask, owner) in asks.iter().zip(&owners) {
            assert!(is_hit(&read(&world, *owner, ask).await), "{is_cut}");
        }
        assert_eq!(purges(&world), purged, "it is noticed once");
        world.origin.set_behavior(OriginBehavior::Fault(away()));
        world.origin.set_away(true);
        assert_eq!(version_in(&read(&world, world.owner_of(unread), unread).await), None, "{is_cut}");
    }
}

/// A dump is restored while no node looks: the database keeps its UUID, and its ids are lower than those of entries in Redis. Nothing
/// else is left to tell: neither marks nor reports.
#[tokio::test(start_paused = true)]
async fn a_dump_that_is_restored_while_no_node_runs_is_noticed_by_the_entries() {
    let without_marks = || Policy { freshness_lease_ms: None, proofs: None, ..at("bolt://one:7687") };
    for policy in [without_marks(), at("bolt://one:7687")] {
        let mut world = empty(905, 90);
        start(&mut world, (0, 0), &[0], &policy).await;
        let asks = asks(&world);
        for ask in &asks {
            assert_eq!(version(&read(&world, 0, ask).await), 90);
        }
        committed(&world).await;
        world.nodes[0].process.set(Power::Off);
        world.pass(1_000).await;
        world.origin.restore(40);
        restart(&mut world, (0, 1), &policy).await;
        for ask in &asks {
            assert_eq!(version(&read(&world, 0, ask).await), 40);
            assert!(is_hit(&read(&world, 0, ask).await));
        }
        // What was not asked for is purged too, or is refused by the next node as well.
        world.pass(1_000).await;
        restart(&mut world, (0, 2), &policy).await;
        for ask in &asks {
            assert_eq!(version(&read(&world, 0, ask).await), 40);
        }
    }
}

/// The same, and foreign writes have brought the ids up again: not as far as a mark that a node has left in Redis, so that shows it.
#[tokio::test(start_paused = true)]
async fn a_dump_that_is_restored_while_no_node_runs_is_noticed_by_the_marks() {
    let mut world = empty(909, 50);
    start(&mut world, (0, 0), &[0], &at("bolt://one:7687")).await;
    let right = world.ask("MATCH (n:Right) RETURN n.version AS version");
    assert_eq!(version(&read(&world, 0, &right).await), 50);
    for _ in 0..10 {
        read(&world, 0, &world.ask(WRITE_LEFT)).await;
    }
    assert_eq!(version(&read(&world, 0, &right).await), 50, "no write has touched it");
    world.nodes[0].process.set(Power::Off);
    world.pass(1_000).await;
    world.origin.restore(40);
    for _ in 0..15 {
        world.origin.write_past();
    }
    restart(&mut world, (0, 1), &at("bolt://one:7687")).await;
    assert_eq!(version(&read(&world, 0, &right).await), 55);
}

/// Two nodes of one ring before two servers, as in the midst of a change of `origin.uri` node by node: each answers from its own.
#[tokio::test(start_paused = true)]
async fn nodes_of_one_ring_before_two_servers_share_no_answer() {
    let mut world = empty(906, 10);
    start(&mut world, (0, 0), &[0, 1], &at("bolt://one:7687")).await;
    before_another(&mut world, 1_000);
    start(&mut world, (1, 0), &[0, 1], &at("bolt://other:7687")).await;
    let asks = asks(&world);
    for _ in 0..3 {
        for ask in &asks {
            assert_eq!(version(&read(&world, 0, ask).await), 10);
            assert_eq!(version(&read(&world, 1, ask).await), 1_000);
        }
        world.pass(NOTICED_MS).await;
    }
}

/// Two nodes that write the address of one Neo4j in different ways share answers and entries, and end nothing of each other.
#[tokio::test(start_paused = true)]
async fn two_addresses_of_one_server_are_one_database() {
    let mut world = empty(907, 10);
    for (node, address) in [(0, "bolt://127.0.0.1:7687"), (1, "bolt://localhost:7687")] {
        start(&mut world, (node, 0), &[0, 1], &at(address)).await;
    }
    let asks = asks(&world);
    // Each has run something of its own, and knows its database.
    for ask in &asks {
        read(&world, 0, ask).await;
        read(&world, 1, ask).await;
    }
    let runs = world.origin.runs();
    for _ in 0..3 {
        for ask in &asks {
            assert!(is_hit(&read(&world, 0, ask).await) && is_hit(&read(&world, 1, ask).await));
        }
        world.pass(NOTICED_MS).await;
    }
    assert_eq!((world.origin.runs(), purges(&world)), (runs, 0));
    read(&world, 0, &world.ask(WRITE)).await;
    for ask in &asks {
        for node in 0..2 {
            assert_eq!(version(&read(&world, node, ask).await), 11);
        }
    }
}

/// Servers that tell no transactions: their addresses decide.
#[tokio::test(start_paused = true)]
async fn without_transactions_the_address_decides() {
    let plain = |address: &str| Policy { origin: address.to_owned(), ..default_policy() };
    let mut world = World::empty(908);
    world.origin.set_version(10);
    start(&mut world, (0, 0), &[0], &plain("bolt://one:7687")).await;
    let asks = asks(&world);
    for ask in &asks {
        read(&world, 0, ask).await;
    }
    start(&mut world, (1, 0), &[1], &plain("bolt://one:7687")).await;
    let runs = world.origin.runs();
    for ask in &asks {
        assert!(is_hit(&read(&world, 1, ask).await));
    }
    assert_eq!(world.origin.runs(), runs);
    world.origin.set_version(77);
    start(&mut world, (2, 0), &[2], &plain("bolt://other:7687")).await;
    for ask in &asks {
        assert_eq!(version(&read(&world, 2, ask).await), 77);
    }
}
