//! A write that says by which values it found what it changed ends only what may have found the same, on all nodes, however they hear of
//! it.

use hopcache_sim::world::write_statement::{WRITE_ALL_LEFT, WRITE_BOTH, WRITE_MOVED, WRITE_ONE, WRITE_RIGHT};

use super::proofs::{BOUND_MS, LONG_MS, WATCH_MS, after, policy, warm_world};
use super::{NODES, proved, warm, world_of};
use crate::prelude::*;

const PAIR: usize = 2;
/// Some messages between nodes: less than a quarter of the time in which a watcher's report reaches a node.
const SETTLED_MS: u64 = 20;

/// A read of the nodes with this value, whose key this node owns.
fn read_of(world: &World, id: u32, owner: usize) -> Ask {
    let mut asks = (0..).map(|n| world.ask(&format!("MATCH (n{n} {{id: {id}}}) RETURN n{n} AS version")));
    asks.find(|ask| world.owner_of(ask) == owner).unwrap()
}

async fn write_of(world: &World, node: usize, statement: &str) {
    let outcome = world.send(node, &world.ask(statement)).await.unwrap();
    assert!(matches!(outcome.answer, Answer::Body(_)), "{outcome:?}");
}

/// A read of each value, cached at their owner, which `from` does not reach any more.
async fn cached_and_cut_off(world: &World, from: usize, owner: usize) -> [Ask; 2] {
    let asks = [1, 2].map(|id| read_of(world, id, owner));
    for ask in &asks {
        read(world, owner, ask).await;
    }
    world.pass(FRESHNESS_LEASE_MS_DEFAULT).await;
    for (from, to) in [(from, owner), (owner, from)] {
        world.net.set_way_cut(from, to, true);
    }
    asks
}

/// A hit with this version.
fn is_hit_of(outcome: &Outcome, expected: i64) {
    assert!(is_hit(outcome) && version(outcome) == expected, "{outcome:?}");
}

#[tokio::test(start_paused = true)]
async fn an_entry_of_another_value_stays_on_both_nodes() {
    let world = world_of(PAIR, 450, &proved()).await;
    let [one, two] = [1, 2].map(|id| [0, 1].map(|owner| read_of(&world, id, owner)));
    for ask in one.iter().chain(&two) {
        warm(&world, ask).await;
    }
    for round in 2..6 {
        let runs = world.origin.runs();
        write_of(&world, usize::try_from(round).unwrap() % PAIR, WRITE_ONE).await;
        for node in 0..PAIR {
            for ask in &two {
                is_hit_of(&read(&world, node, ask).await, 1);
            }
        }
        // A look that finds the write in the store's log ends nothing more.
        world.pass(FRESHNESS_LEASE_MS_DEFAULT).await;
        for node in 0..PAIR {
            for ask in &two {
                is_hit_of(&read(&world, node, ask).await, 1);
            }
        }
        assert_eq!(world.origin.runs(), runs, "no entry of the other value is read again");
        for node in 0..PAIR {
            for ask in &one {
                assert_eq!(version(&read(&world, node, ask).await), round);
            }
        }
        assert_eq!(world.origin.runs() - runs, one.len(), "one run for each entry of the value");
    }
}

/// A node that gets the value is a new one for its readers, and no loss for those of another value.
#[tokio::test(start_paused = true)]
async fn a_node_that_gets_a_value_ends_its_readers() {
    let world = world_of(PAIR, 451, &proved()).await;
    // A count shows no property: only that a node gets the value ends it.
    let [one, two] = [1, 2].map(|id| {
        let text = |n| format!("MATCH (n{n} {{id: {id}}}) RETURN count(n{n}) AS version");
        let mut asks = (0..).map(|n| world.ask(&text(n)));
        asks.find(|ask| world.owner_of(ask) == 1).unwrap()
    });
    for ask in [&one, &two] {
        warm(&world, ask).await;
    }
    write_of(&world, 0, WRITE_MOVED).await;
    is_hit_of(&read(&world, 0, &one).await, 1);
    assert_eq!(version(&read(&world, 0, &two).await), 2);
}

/// A node that its peer cannot reach reads the write, with its values, in the store's log.
#[tokio::test(start_paused = true)]
async fn the_stores_log_brings_the_values() {
    let world = world_of(PAIR, 452, &proved()).await;
    let [one, two] = cached_and_cut_off(&world, 0, 1).await;
    write_of(&world, 0, WRITE_ONE).await;
    let runs = world.origin.runs();
    is_hit_of(&read(&world, 1, &two).await, 1);
    assert_eq!(world.origin.runs(), runs);
    assert_eq!(version(&read(&world, 1, &one).await), 2);
}

/// Two writes leave marks of the same things, the earlier one of another value. A node that hears of the later one first ends what the
/// earlier one has changed as well.
#[tokio::test(start_paused = true)]
async fn a_later_mark_hides_no_earlier_write() {
    let world = world_of(3, 453, &proved()).await;
    // Node 0 reaches only the store; node 1 reaches all.
    let [one, two] = cached_and_cut_off(&world, 0, 2).await;
    write_of(&world, 0, WRITE_ONE).await;
    write_of(&world, 1, "MATCH (w:Right {id: 2}) SET w += {id: 2, name: 'two'}").await;
    assert_eq!(version(&read(&world, 2, &one).await), 3);
    assert_eq!(version(&read(&world, 2, &two).await), 3);
}

/// The store loses its data after a write that one node told only to it. The others hear of it when that node looks.
#[tokio::test(start_paused = true)]
async fn a_store_that_lost_its_log_is_told_the_marks_again() {
    let world = world_of(PAIR, 454, &proved()).await;
    let [one, two] = cached_and_cut_off(&world, 0, 1).await;
    write_of(&world, 0, WRITE_ONE).await;
    world.store.lose_everything();
    world.pass(2 * FRESHNESS_LEASE_MS_DEFAULT).await;
    assert_eq!(version(&read(&world, 1, &one).await), 2);
    // Of the marks that were put back nothing more is known.
    assert_eq!(version(&read(&world, 1, &two).await), 2);
}

/// A write reaches one other node, and not the store. That node has told a later write of another value to all: so no mark lacks in the
/// store, and yet the third node hears of the earlier write.
#[tokio::test(start_paused = true)]
async fn who_has_heard_of_a_write_puts_it_into_the_log() {
    let world = world_of(3, 455, &proved()).await;
    let one = read_of(&world, 1, 2);
    read(&world, 2, &one).await;
    world.pass(FRESHNESS_LEASE_MS_DEFAULT).await;
    world.store.set_cut(0, true);
    for (from, to) in [(0, 2), (2, 0)] {
        world.net.set_way_cut(from, to, true);
    }
    let ask = world.ask(WRITE_ONE);
    let (first, second) = tokio::join!(world.send(0, &ask), async {
        world.pass(20).await;
        write_of(&world, 1, "MATCH (w:Right {id: 2}) SET w += {id: 2, name: 'two'}").await;
        world.pass(2 * FRESHNESS_LEASE_MS_DEFAULT).await;
        read(&world, 2, &one).await
    });
    assert!(matches!(first.unwrap().answer, Answer::Body(_)));
    assert_eq!(version(&second), 3);
}

/// A watched world, in which a write to all nodes of one label has ended a read of the other label, at its owner, and that node has asked
/// whether some node has both. With the read, its owner, and the version that is cached.
async fn apart(seed: u64) -> (World, Ask, usize, i64) {
    let (world, _) = warm_world(seed, WATCH_MS).await;
    // Each node has used the names once: a later write takes no id for them.
    for node in 0..world.nodes.len() {
        write_of(&world, node, WRITE_ALL_LEFT).await;
    }
    world.pass(LONG_MS).await;
    let right = world.ask("MATCH (n:Right) RETURN n AS version");
    let owner = world.owner_of(&right);
    // Nobody asks about the labels before the next write of this kind: nobody had a result when they were asked.
    write_of(&world, owner, WRITE_ALL_LEFT).await;
    warm(&world, &right).await;
    write_of(&world, owner, WRITE_ALL_LEFT).await;
    let now = i64::from(world.origin.version());
    assert_eq!(version(&read(&world, owner, &right).await), now, "a node may have both labels");
    world.pass(BOUND_MS).await;
    (world, right, owner, now)
}

#[tokio::test(start_paused = true)]
async fn labels_that_no_node_has_both_of_keep_each_others_reads() {
    let (world, right, owner, cached) = apart(456).await;
    let runs = world.origin.runs();
    for node in 0..world.nodes.len() {
        write_of(&world, node, WRITE_ALL_LEFT).await;
        world.pass(BOUND_MS).await;
        is_hit_of(&read(&world, owner, &right).await, cached);
    }
    assert_eq!(world.origin.runs(), runs);
    // A node gets both: what its own write ended is read, and what a later write to its other label may have changed as well.
    for statement in [WRITE_BOTH, WRITE_ALL_LEFT, WRITE_ALL_LEFT] {
        write_of(&world, 0, statement).await;
        world.pass(BOUND_MS).await;
        let now = i64::from(world.origin.version());
        assert_eq!(version(&read(&world, owner, &right).await), now, "{statement}");
        world.pass(BOUND_MS).await;
    }
}

/// A write that sets properties alone may have changed nothing, so it does not count by itself. Its node accounts for it before any report
/// does: a pair of labels keeps the read at once, whichever node is asked, and a client that has the write's bookmark gets it too.
#[tokio::test(start_paused = true)]
async fn what_sets_properties_alone_is_accounted_for_at_once() {
    let (world, right, _, cached) = apart(458).await;
    all_account_at_once(&world, &right, cached).await;
}

async fn all_account_at_once(world: &World, right: &Ask, cached: i64) {
    let runs = world.origin.runs();
    for writer in 0..world.nodes.len() {
        write_of(world, writer, WRITE_ALL_LEFT).await;
        world.pass(SETTLED_MS).await;
        let after = after(right, world.origin.version());
        for node in 0..world.nodes.len() {
            is_hit_of(&read(world, node, right).await, cached);
            is_hit_of(&read(world, node, &after).await, cached);
        }
    }
    assert_eq!(world.origin.runs(), runs);
}

/// Nodes start. One reads at Neo4j, and watches: its report does not reach the store yet. A write, and another one watches too: it has seen no
/// report, so the write is foreign to it. Where the first one is the owner of the database's name, its account goes on, and knows of no foreign
/// transaction so late.
#[tokio::test(start_paused = true)]
async fn what_sets_properties_alone_is_accounted_for_after_two_have_watched() {
    for first in 0..NODES {
        let world = world_of(NODES, 460, &policy(WATCH_MS)).await;
        world.origin.count_exactly();
        world.origin.set_version(100);
        world.store.set_cut(first, true);
        read(&world, first, &read_of(&world, 1, first)).await;
        world.pass(WATCH_MS).await;
        write_of(&world, (first + 1) % NODES, WRITE_ONE).await;
        world.pass(2 * FRESHNESS_LEASE_MS_DEFAULT).await;
        world.store.set_cut(first, false);
        world.pass(BOUND_MS).await;
        // Each node has used the names once, and knows the labels apart.
        let right = world.ask("MATCH (n:Right) RETURN n AS version");
        for node in (0..NODES).chain(0..NODES) {
            write_of(&world, node, WRITE_ALL_LEFT).await;
            warm(&world, &right).await;
            world.pass(BOUND_MS).await;
        }
        let cached = version(&read(&world, first, &right).await);
        all_account_at_once(&world, &right, cached).await;
    }
}

/// A node gives a node both labels, and its word reaches nobody yet. Then the owner writes to all of the one label. It has not heard of the
/// transaction before its own, so it does not know that the labels are apart.
#[tokio::test(start_paused = true)]
async fn labels_are_apart_only_as_far_as_all_transactions_are_known() {
    let (world, right, owner, _) = apart(457).await;
    // What is cached is later than the answer by more than a write can have been under way.
    for _ in 0..4 {
        write_of(&world, owner, WRITE_RIGHT).await;
        world.pass(BOUND_MS).await;
        read(&world, owner, &right).await;
    }
    write_of(&world, owner, WRITE_ALL_LEFT).await;
    let cached = i64::from(world.origin.version()) - 1;
    world.pass(BOUND_MS).await;
    is_hit_of(&read(&world, owner, &right).await, cached);
    let writer = (owner + 1) % world.nodes.len();
    world.store.set_cut(writer, true);
    for other in (0..world.nodes.len()).filter(|node| *node != writer) {
        for (from, to) in [(writer, other), (other, writer)] {
            world.net.set_way_cut(from, to, true);
        }
    }
    let ask = world.ask(WRITE_BOTH);
    let (first, second) = tokio::join!(world.send(writer, &ask), async {
        world.pass(100).await;
        write_of(&world, owner, WRITE_ALL_LEFT).await;
        read(&world, owner, &right).await
    });
    assert!(matches!(first.unwrap().answer, Answer::Body(_)));
    let now = i64::from(world.origin.version());
    assert!(now > cached && version(&second) == now, "the node of both labels has another name");
}
