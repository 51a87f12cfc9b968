//! Writes that are under way while their ids count as foreign: their late bookmarks hide no foreign write.

use hopcache_core::bookmark::{DatabaseUuid, Position, TransactionId};
use hopcache_core::limits::HANDOVER_MS;
use hopcache_core::proof::Finding;
use hopcache_engine::{Effects, PendingWrite};
use hopcache_sim::world::origin::DATABASE;

use super::proofs::{BOUND_MS, RIGHT, WATCH_MS, policy, proved, settled_writers, warm_world, watcher};
use super::{NODES, write_of};
use crate::prelude::*;

/// The end of a write with a bookmark of the newest transaction.
fn newest(world: &World) -> Option<Position> {
    let database: DatabaseUuid = DATABASE;
    Some(Position { database, id: TransactionId(u64::from(world.origin.version())) })
}

/// A write of another label than `Right`. It takes one id.
fn slow_write(world: &World) -> WriteOf {
    let effects = Effects::of(WRITE_LEFT, &[0xa0]);
    let of = write_of(&world.ask(WRITE_LEFT), Parts::None, effects.touched());
    WriteOf { tokens: Some([].into()), ..of }
}

/// Results are proved again at this node. A foreign write takes the next id, and the write under way ends with a bookmark that is as late.
async fn hides_no_foreign_write(world: &World, node: usize, slow: PendingWrite) {
    let before = version(&read(world, node, &world.ask(RIGHT)).await);
    world.pass(BOUND_MS).await;
    assert_eq!(proved(&read(world, node, &world.ask(RIGHT)).await), Some(before));
    world.origin.write_past();
    slow.committed(newest(world)).await;
    world.pass(BOUND_MS).await;
    assert_eq!(proved(&read(world, node, &world.ask(RIGHT)).await), None, "a foreign write");
}

/// The last schedule of `core::proof::Accounts`: own W has taken an id, and Neo4j's answer to its COMMIT stalls. Beside a foreign one the id counts
/// as foreign too. Whatever is known meanwhile, W accounts for no later id.
#[tokio::test(start_paused = true)]
async fn a_late_answer_hides_no_foreign_write_after_a_known_one() {
    let (world, asks) = warm_world(490, WATCH_MS).await;
    settled_writers(&world, &asks).await;
    let slow = world.nodes[0].engine.writes().begin(slow_write(&world));
    // W's id, and a foreign one.
    world.origin.write_past();
    world.origin.write_past();
    world.pass(BOUND_MS).await;
    assert_eq!(proved(&read(&world, 0, &world.ask(RIGHT)).await), None);
    read(&world, 0, &world.ask(WRITE_ELSEWHERE)).await;
    world.pass(10 * BOUND_MS).await;
    hides_no_foreign_write(&world, 0, slow).await;
}

/// The same without another foreign write, at a node that does not answer the watcher when the account begins.
#[tokio::test(start_paused = true)]
async fn a_late_answer_at_a_silent_node_hides_no_foreign_write() {
    let (world, asks) = warm_world(491, WATCH_MS).await;
    settled_writers(&world, &asks).await;
    let watcher = watcher(&world).await;
    let other = (watcher + 1) % NODES;
    let slow = world.nodes[other].engine.writes().begin(slow_write(&world));
    world.net.set_way_cut(watcher, other, true);
    // W's id.
    world.origin.write_past();
    world.pass(BOUND_MS).await;
    assert_eq!(proved(&read(&world, watcher, &world.ask(RIGHT)).await), None);
    world.net.set_way_cut(watcher, other, false);
    world.pass(10 * BOUND_MS).await;
    hides_no_foreign_write(&world, watcher, slow).await;
}

/// The same at a node that is outside the watcher's view when the account begins: nobody asks it, and nobody knows that it is silent.
#[tokio::test(start_paused = true)]
async fn a_late_answer_at_a_node_that_nobody_listed_hides_no_foreign_write() {
    let (world, asks) = warm_world(492, WATCH_MS).await;
    settled_writers(&world, &asks).await;
    let watcher = watcher(&world).await;
    let other = (watcher + 1) % NODES;
    let slow = world.nodes[other].engine.writes().begin(slow_write(&world));
    let list = |nodes: &[usize]| {
        let names: Vec<_> = nodes.iter().filter_map(|node| node_name(*node)).collect();
        world.nodes[watcher].routing.set(&names);
    };
    let all: Vec<usize> = (0..NODES).collect();
    // Former members are asked for a while.
    list(&all.iter().copied().filter(|node| *node != other).collect::<Vec<_>>());
    world.pass(2 * HANDOVER_MS).await;
    // W's id.
    world.origin.write_past();
    world.pass(BOUND_MS).await;
    assert_eq!(proved(&read(&world, watcher, &world.ask(RIGHT)).await), None);
    list(&all);
    world.pass(10 * BOUND_MS).await;
    hides_no_foreign_write(&world, watcher, slow).await;
}

/// A node that joins under a name that nobody knew is asked at the watcher's next look. So its first write, half a second later, is counted, also
/// where nobody else has written meanwhile.
#[tokio::test(start_paused = true)]
async fn the_first_write_of_a_node_that_joins_ends_no_proof() {
    let (mut world, asks) = warm_world(493, WATCH_MS).await;
    settled_writers(&world, &asks).await;
    let is_foreign = |event: &Event| *event == Event::Watched(Finding::Foreign);
    let before = version(&read(&world, 0, &world.ask(RIGHT)).await);
    world.pass(BOUND_MS).await;
    assert_eq!(proved(&read(&world, 0, &world.ask(RIGHT)).await), Some(before));
    let names: Vec<_> = (0..=NODES).filter_map(node_name).collect();
    let me = Holder { node: names[NODES].clone(), incarnation: Incarnation(77) };
    let (life, routing) = (Life { node: NODES, life: 0 }, SimRouting::new(&names));
    let handle = world.start(Start { life, me, routing, apart: Millis::ZERO }, &policy(WATCH_MS));
    drop(follow(&handle));
    handle.engine.writes().informed().await;
    world.nodes.push(handle);
    world.nodes.iter().for_each(|node| node.routing.set(&names));
    world.pass(FRESHNESS_LEASE_MS_DEFAULT).await;
    let foreign = || world.nodes.iter().map(|node| node.events.count(is_foreign)).sum::<usize>();
    let found = foreign();
    for _ in 0..3 {
        read(&world, NODES, &world.ask(WRITE_ELSEWHERE)).await;
        world.pass(BOUND_MS).await;
    }
    assert_eq!(foreign(), found);
    assert_eq!(proved(&read(&world, 0, &world.ask(RIGHT)).await), Some(before));
}

/// Beside a foreign write, writes overlap all the time: at no look are all over that had begun. Nobody knows then whose ids are whose, and when a
/// report would be too old, all of them count as foreign. So proofs go on, and still none of a result from before the foreign write.
#[tokio::test(start_paused = true)]
async fn writes_that_overlap_all_the_time_hold_back_no_proof_for_ever() {
    let (world, asks) = warm_world(494, WATCH_MS).await;
    let [_, before] = settled_writers(&world, &asks).await;
    world.origin.write_past();
    let foreign = i64::from(world.origin.version());
    let begin = |step: usize| world.nodes[step % NODES].engine.writes().begin(slow_write(&world));
    let mut under_way = begin(0);
    let mut answers = Vec::new();
    for step in 1..100 {
        world.pass(WATCH_MS).await;
        let next = begin(step);
        // The id of the one that ends.
        world.origin.write_past();
        std::mem::replace(&mut under_way, next).committed(newest(&world)).await;
        answers.push(proved(&read(&world, step % NODES, &world.ask(RIGHT)).await));
    }
    let late = &answers[usize::try_from(BOUND_MS / WATCH_MS).unwrap()..];
    assert!(late.iter().flatten().all(|version| *version >= foreign), "{before:?} {answers:?}");
    assert!(
        late.chunks(late.len().div_ceil(3)).all(|third| third.iter().any(Option::is_some)),
        "{answers:?}"
    );
}
