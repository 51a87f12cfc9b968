//! A write ends the entries that depend on what it has touched, and no others, wherever they lie and however nodes hear of
//! it.

use hopcache_core::entry::ChecksumKey;
use hopcache_core::lease::StoredEntry;
use hopcache_engine::copy::{MemoryCopy, SharedCopy};
use hopcache_engine::event::HandoverWord;
use hopcache_sim::world::origin::DATABASE;
use hopcache_sim::world::write_statement::{WRITE_BY_USE, WRITE_RIGHT};

use super::{ended_by_writes, proved, warm, world_of};
use crate::prelude::*;

const PAIR: usize = 2;

/// A read of a label, whose key this node owns.
fn read_of(world: &World, label: &str, owner: usize) -> Ask {
    let mut asks = (0..).map(|n| world.ask(&format!("MATCH (n{n}:{label}) RETURN n{n}.version AS version")));
    asks.find(|ask| world.owner_of(ask) == owner).unwrap()
}

async fn write_of(world: &World, node: usize, statement: &str) {
    let outcome = world.send(node, &world.ask(statement)).await.unwrap();
    assert!(matches!(outcome.answer, Answer::Body(_)), "{outcome:?}");
}

/// A hit with this version, from the owner's memory.
fn is_hit_of(outcome: &Outcome, expected: i64, is_from_afar: bool) {
    assert!(is_hit(outcome) && version(outcome) == expected, "{outcome:?}");
    assert_eq!(outcome.answered_by.is_some(), is_from_afar, "{outcome:?}");
}

/// Both nodes write, and own a key of each label: at its owner and behind a forward an entry of the other label stays.
#[tokio::test(start_paused = true)]
async fn an_entry_of_another_label_stays_on_both_nodes() {
    let world = world_of(PAIR, 440, &proved()).await;
    let [left, right] = ["Left", "Right"].map(|label| [0, 1].map(|owner| read_of(&world, label, owner)));
    for ask in left.iter().chain(&right) {
        warm(&world, ask).await;
    }
    for round in 2..6 {
        let writer = usize::try_from(round).unwrap() % PAIR;
        let (runs, ended) = (world.origin.runs(), ended_by_writes(&world, writer));
        write_of(&world, writer, WRITE_LEFT).await;
        for node in 0..PAIR {
            for (owner, ask) in right.iter().enumerate() {
                is_hit_of(&read(&world, node, ask).await, 1, owner != node);
            }
        }
        assert_eq!(world.origin.runs(), runs, "no entry of the other label is read again");
        for node in 0..PAIR {
            for ask in &left {
                assert_eq!(version(&read(&world, node, ask).await), round);
            }
        }
        assert_eq!(world.origin.runs() - runs, left.len(), "one run for each entry of the label");
        assert_eq!(ended_by_writes(&world, writer), ended + 1, "however many tags, it is one write");
    }
}

/// A near copy of the other label stays as well.
#[tokio::test(start_paused = true)]
async fn a_near_copy_of_another_label_stays() {
    let policy = Policy { near_rate_per_s_min: 1.0, ..proved() };
    for writer in 0..PAIR {
        let world = world_of(PAIR, 441, &policy).await;
        let [left, right] = ["Left", "Right"].map(|label| read_of(&world, label, 0));
        for _ in 0..300 {
            world.send(1, &left).await.unwrap();
            world.send(1, &right).await.unwrap();
            world.pass(5).await;
        }
        let near = |ask: &Ask| world.nodes[1].engine.path().hit(ask);
        assert!(near(&left).is_some() && near(&right).is_some());
        write_of(&world, writer, WRITE_LEFT).await;
        assert!(near(&left).is_none());
        assert_eq!(near(&right).map(|outcome| version(&outcome)), Some(1));
        assert_eq!(version(&read(&world, 1, &left).await), 2);
        write_of(&world, writer, WRITE_RIGHT).await;
        assert!(near(&right).is_none());
    }
}

/// A node that its peer cannot reach hears of the write with its look at the store.
#[tokio::test(start_paused = true)]
async fn a_mark_that_only_the_store_brings_ends_what_it_names() {
    let world = world_of(PAIR, 442, &proved()).await;
    let [left, right] = ["Left", "Right"].map(|label| read_of(&world, label, 1));
    for ask in [&left, &right] {
        read(&world, 1, ask).await;
    }
    for (from, to) in [(0, 1), (1, 0)] {
        world.net.set_way_cut(from, to, true);
    }
    let began = sim_now();
    write_of(&world, 0, WRITE_LEFT).await;
    assert!(sim_now().since(began) <= Millis(100 + FRESHNESS_LEASE_MS_DEFAULT + super::SOON_MS));
    let runs = world.origin.runs();
    is_hit_of(&read(&world, 1, &right).await, 1, false);
    assert_eq!(world.origin.runs(), runs);
    assert_eq!(version(&read(&world, 1, &left).await), 2);
    let heard = world.nodes[1].engine.writes().known();
    assert!(heard.iter().any(|record| record.tag.is_some()), "{heard:?}");
}

/// The former owner's copies come to the new owner, which judges them by the marks of their own tags.
#[tokio::test(start_paused = true)]
async fn an_entry_that_was_handed_over_ends_with_what_it_depends_on() {
    let world = world_of(PAIR, 443, &proved()).await;
    let [left, right] = ["Left", "Right"].map(|label| read_of(&world, label, 1));
    let ring = |nodes: usize| {
        let names: Vec<_> = (0..nodes).filter_map(node_name).collect();
        for node in &world.nodes {
            node.routing.set(&names);
            node.engine.invalidate().ring_changed();
        }
    };
    ring(1);
    for ask in [&left, &right] {
        read(&world, 0, ask).await;
    }
    write_of(&world, 0, WRITE_LEFT).await;
    // The new owner hears of it at the store, and then the store is away.
    world.pass(FRESHNESS_LEASE_MS_DEFAULT).await;
    ring(PAIR);
    world.store.set_down(true);
    is_hit_of(&read(&world, 1, &right).await, 1, false);
    let fetched = |event: &Event| *event == Event::Handover(HandoverWord::Fetched);
    assert_eq!((world.nodes[1].events.count(fetched), world.origin.runs()), (1, 2));
    assert_eq!(version(&read(&world, 1, &left).await), 2, "its copy was ended before it moved");
    assert_eq!(world.nodes[1].events.count(fetched), 1);
    world.store.set_down(false);
    world.pass(1_000).await;
    write_of(&world, 0, WRITE_LEFT).await;
    for node in 0..PAIR {
        is_hit_of(&read(&world, node, &right).await, 1, node == 0);
    }
    write_of(&world, 0, WRITE_RIGHT).await;
    for node in 0..PAIR {
        assert_eq!(version(&read(&world, node, &right).await), 4);
    }
}

/// Nobody knows what a copy depends on that came without its query: any write counts, until a request brings the query.
#[tokio::test(start_paused = true)]
async fn a_copy_without_its_query_is_judged_when_a_request_brings_it() {
    let world = world_of(PAIR, 444, &proved()).await;
    let [left, right] = ["Left", "Right"].map(|label| read_of(&world, label, 1));
    for ask in [&left, &right] {
        warm(&world, ask).await;
        committed(&world).await;
        let (key, node) = (ask.query.key, &world.nodes[1]);
        let copy = node.memory.get(&key).unwrap();
        let seal_key = ChecksumKey([7; 32]);
        let bytes =
            copy.seal((&key, &seal_key), copy.token().unwrap(), (&node.engine.me().node, DATABASE)).unwrap();
        let left_ms = copy.fallback_until().since(sim_now());
        let stored = StoredEntry { bytes, left_ms };
        let without = MemoryCopy::decode(&stored, (&key, &seal_key), sim_now()).unwrap();
        node.memory.put(key, SharedCopy::new(without.of_principal(ask.query.identity.scope)), left_ms);
    }
    // The store has nothing to answer with instead.
    world.store.lose_everything();
    write_of(&world, 1, WRITE_LEFT).await;
    let runs = world.origin.runs();
    is_hit_of(&read(&world, 0, &right).await, 1, true);
    is_hit_of(&read(&world, 1, &right).await, 1, false);
    assert_eq!(world.origin.runs(), runs);
    for node in 0..PAIR {
        assert_eq!(version(&read(&world, node, &left).await), 2);
    }
}

/// A write whose answer was lost may have been committed. It counts for what it would have touched. One that Neo4j has rolled back has
/// touched nothing.
#[tokio::test(start_paused = true)]
async fn a_failed_write_ends_what_it_may_have_touched() {
    for fate in [WriteFate::LostAfter, WriteFate::Fails, WriteFate::LostBefore] {
        let is_rolled_back = fate == WriteFate::Fails;
        let world = world_of(PAIR, 445, &proved()).await;
        let [left, right] = ["Left", "Right"].map(|label| read_of(&world, label, 0));
        for ask in [&left, &right] {
            warm(&world, ask).await;
        }
        // A transaction that no node knows of: whoever asks Neo4j now hears of a later one than the entries carried.
        world.origin.set_version(2);
        world.origin.set_write_fate(fate);
        let failed = world.send(1, &world.ask(WRITE_LEFT)).await.unwrap();
        assert!(matches!(failed.answer, Answer::Failed(_)), "{failed:?}");
        let now = if is_rolled_back { 1 } else { i64::from(world.origin.version()) };
        for node in 0..PAIR {
            is_hit_of(&read(&world, node, &right).await, 1, node == 1);
            assert_eq!(version(&read(&world, node, &left).await), now, "{fate:?}");
        }
    }
}

/// A write elsewhere ends nothing, and no reader waits for it. One that names its graph may have touched anything.
#[tokio::test(start_paused = true)]
async fn a_write_elsewhere_ends_nothing() {
    let world = world_of(PAIR, 446, &proved()).await;
    let asks = [world.ask(super::READ), read_of(&world, "Left", 1)];
    for ask in &asks {
        warm(&world, ask).await;
    }
    for node in 0..PAIR {
        write_of(&world, node, WRITE_ELSEWHERE).await;
        for node in 0..PAIR {
            for ask in &asks {
                is_hit_of(&read(&world, node, ask).await, 1, world.owner_of(ask) != node);
            }
        }
    }
    assert_eq!((world.origin.runs(), world.origin.version()), (2, 3));
    write_of(&world, 0, WRITE_BY_USE).await;
    for ask in &asks {
        let outcome = read(&world, 0, ask).await;
        assert!(version(&outcome) == 4 && matches!(outcome.how.class, Class::Miss { .. }), "{outcome:?}");
    }
}
