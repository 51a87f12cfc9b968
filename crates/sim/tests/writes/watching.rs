//! How many runs make an entry proved again, and whether databases are watched apart from each other.

use hopcache_core::limits::WATCH_SILENT_MS_MIN;
use hopcache_core::proof::Finding;

use super::proofs::{
    BOUND_MS, FIRST, LEFT, LONG_MS, RIGHT, WATCH_MS, proved, settled_writers, warm_world, watcher,
};
use hopcache_sim::world::write_statement::WRITE_ONE;

use super::{NODES, write_of};
use crate::prelude::*;

/// A write past all nodes ends all proofs. Each key is proved again by one run of its own, on all nodes, without another run.
#[tokio::test(start_paused = true)]
async fn one_run_after_a_foreign_write_is_enough_to_be_proved() {
    let (world, _) = warm_world(481, WATCH_MS).await;
    for write in 1..=3 {
        world.origin.write_past();
        world.pass(BOUND_MS + LONG_MS).await;
        // Requests have deadlines: each round has its own.
        let asks = [LEFT, RIGHT].map(|statement| world.ask(statement));
        let runs = world.origin.runs();
        for ask in &asks {
            assert_eq!(version(&read(&world, 0, ask).await), FIRST + write);
        }
        for _ in 0..3 {
            world.pass(LONG_MS).await;
            for node in 0..NODES {
                for ask in &asks {
                    assert_eq!(proved(&read(&world, node, ask).await), Some(FIRST + write), "node {node}");
                }
            }
        }
        assert_eq!(world.origin.runs(), runs + asks.len(), "one for each key");
    }
}

/// A database that does not answer its watcher holds back no report of another one.
#[tokio::test(start_paused = true)]
async fn a_silent_database_holds_back_no_other() {
    let (world, [left, _]) = warm_world(482, WATCH_MS).await;
    let other = world.ask_in("other", RIGHT, "alice");
    for _ in 0..3 {
        read(&world, 0, &other).await;
        world.pass(LONG_MS).await;
    }
    world.origin.be_silent_about("other");
    let runs = world.origin.runs();
    for _ in 0..200 {
        world.pass(LONG_MS / 200).await;
        assert_eq!(proved(&read(&world, 0, &left).await), Some(FIRST));
    }
    assert_eq!(world.origin.runs(), runs);
}

/// A read that this node owns.
fn read_of(world: &World, node: usize) -> Ask {
    let mut asks = (0..).map(|n| world.ask(&format!("MATCH (n{n}:Right) RETURN n{n}.version")));
    asks.find(|ask| world.owner_of(ask) == node).unwrap()
}

/// The watcher is killed while others write. Who takes its place a moment later goes on from its report.
#[tokio::test(start_paused = true)]
async fn who_takes_the_place_of_a_watcher_ends_no_proof() {
    let (world, asks) = warm_world(483, WATCH_MS).await;
    settled_writers(&world, &asks).await;
    let watcher = watcher(&world).await;
    let writer = (watcher + 1) % NODES;
    let before = version(&read(&world, writer, &read_of(&world, writer)).await);
    world.pass(BOUND_MS).await;
    assert_eq!(proved(&read(&world, writer, &read_of(&world, writer)).await), Some(before));
    world.nodes[watcher].process.set(Power::Off);
    for _ in 0..50 {
        read(&world, writer, &world.ask(WRITE_ELSEWHERE)).await;
        world.pass(LONG_MS / 50).await;
    }
    // Until now each of the others has reported only where nobody had for a while. Now one of them is the watcher.
    let names: Vec<_> = (0..NODES).filter(|node| *node != watcher).filter_map(node_name).collect();
    world.nodes.iter().for_each(|node| node.routing.set(&names));
    world.pass(BOUND_MS).await;
    assert_eq!(proved(&read(&world, writer, &read_of(&world, writer)).await), Some(before));
}

/// The owner of the database's name is stopped, and stays on the ring. Who reports in its place goes on, though it sees reports: its own.
#[tokio::test(start_paused = true)]
async fn who_watches_for_a_silent_owner_goes_on() {
    let (world, _) = warm_world(484, WATCH_MS).await;
    let watcher = watcher(&world).await;
    let reader = (watcher + 1) % NODES;
    let ask = read_of(&world, reader);
    read(&world, reader, &ask).await;
    world.nodes[watcher].process.set(Power::Paused);
    world.pass(WATCH_SILENT_MS_MIN + BOUND_MS).await;
    for step in 0..200 {
        assert_eq!(proved(&read(&world, reader, &ask).await), Some(FIRST), "step {step}");
        world.pass(LONG_MS / 100).await;
    }
    // Back again, it is the only watcher: the others see its reports.
    world.nodes[watcher].process.set(Power::On);
    world.pass(WATCH_SILENT_MS_MIN).await;
    let watched = |node: usize| world.nodes[node].events.count(|event| matches!(event, Event::Watched(_)));
    let before: Vec<_> = (0..NODES).map(watched).collect();
    world.pass(LONG_MS).await;
    for (node, before) in before.into_iter().enumerate() {
        assert_eq!(watched(node) > before, node == watcher, "{node}");
    }
}

/// A procedure is under way for long, in write access, and only reads. The watcher does not wait for its end to tell a foreign write from it.
#[tokio::test(start_paused = true)]
async fn a_long_procedure_that_reads_holds_back_no_account() {
    let (world, [left, _]) = warm_world(485, WATCH_MS).await;
    let called = Parts::Called { statement: "CALL own.report()".into(), params: vec![0xA0].into() };
    for node in 0..NODES {
        let write =
            world.nodes[node].engine.writes().begin(write_of(&left, called.clone(), Touched::Anything));
        world.origin.write_past();
        let now = i64::from(world.origin.version());
        world.pass(BOUND_MS + LONG_MS).await;
        let left = world.ask(LEFT);
        assert_eq!(version(&read(&world, 0, &left).await), now);
        world.pass(LONG_MS).await;
        for reader in 0..NODES {
            assert_eq!(proved(&read(&world, reader, &left).await), Some(now), "while {node} calls it");
        }
        write.changed_nothing();
    }
}

/// A database is read by two names, and written by both: no write looks foreign to the account by the other name.
#[tokio::test(start_paused = true)]
async fn writes_by_two_names_of_a_database_are_known_to_both_accounts() {
    let (world, asks) = warm_world(486, WATCH_MS).await;
    settled_writers(&world, &asks).await;
    let is_foreign = |event: &Event| *event == Event::Watched(Finding::Foreign);
    let by_name = |name: &str, statement: &str| world.ask_in(name, statement, "alice");
    // Both names are watched, and each node has written by both.
    for node in 0..NODES {
        read(&world, node, &by_name("alias", RIGHT)).await;
        read(&world, node, &by_name("alias", WRITE_ELSEWHERE)).await;
    }
    world.pass(LONG_MS).await;
    let before = version(&read(&world, 0, &world.ask(RIGHT)).await);
    world.pass(BOUND_MS).await;
    let foreign = || world.nodes.iter().map(|node| node.events.count(is_foreign)).sum::<usize>();
    let (found, runs) = (foreign(), world.origin.runs());
    for step in 0..50 {
        let name = if step % 2 == 0 { "alias" } else { "neo4j" };
        read(&world, step % NODES, &by_name(name, WRITE_ELSEWHERE)).await;
        world.pass(LONG_MS / 50).await;
        let reader = (step + 1) % NODES;
        assert_eq!(proved(&read(&world, reader, &world.ask(RIGHT)).await), Some(before), "step {step}");
    }
    assert_eq!((foreign(), world.origin.runs()), (found, runs));
    // What is foreign is found by both.
    world.origin.write_past();
    world.pass(BOUND_MS).await;
    assert_eq!((proved(&read(&world, 0, &world.ask(RIGHT)).await), foreign()), (None, found + 2));
}

/// How old the last account is, is shown at any time: also while the watcher is uncertain and no write of the cluster waits to be accounted for,
/// and while Neo4j is silent and nodes account for their writes themselves. A proof needs an account that is not old.
#[tokio::test(start_paused = true)]
async fn the_age_of_the_last_account_is_shown() {
    let (world, asks) = warm_world(487, WATCH_MS).await;
    let [left, _] = &asks;
    let ages = || world.nodes[0].engine.writes().account_ages();
    assert_eq!(ages(), [], "nothing was written through it");
    settled_writers(&world, &asks).await;
    let write = || async { read(&world, 0, &world.ask(WRITE_ONE)).await };
    let age = || ages().into_iter().find(|(name, _)| &**name == "neo4j").and_then(|(_, age)| age).unwrap();
    write().await;
    world.pass(BOUND_MS).await;
    assert!(age().0 <= BOUND_MS, "{:?}", age());
    // A foreign id beside a long write: nobody knows whose it is, until the last report is too old.
    let long = world.nodes[1].engine.writes().begin(write_of(left, Parts::Batches, Touched::Anything));
    world.origin.write_past();
    world.pass(BOUND_MS).await;
    assert!((BOUND_MS..2 * BOUND_MS).contains(&age().0), "{:?}", age());
    assert_eq!(proved(&read(&world, 0, left).await), None);
    world.pass(BOUND_MS).await;
    assert!(age().0 < BOUND_MS, "it counts as foreign: {:?}", age());
    long.changed_nothing();
    world.pass(BOUND_MS).await;
    assert!(age().0 <= BOUND_MS, "{:?}", age());
    world.origin.be_silent_about("neo4j");
    for _ in 0..10 {
        write().await;
        world.pass(300).await;
    }
    assert!((2_900..4_000 + BOUND_MS).contains(&age().0), "{:?}", age());
}
