//! Refresh on write: hot keys that a write has ended are read anew at once, within bounds, and no other keys.

use hopcache_core::limits::HOT_LOOK_PAUSE_MS;

use super::{NODES, SOON_MS, world, write};
use crate::prelude::*;

/// A run's time here.
const RUN_MS: u64 = 100;

fn read_after_writes(world: &World) -> Vec<usize> {
    let is_one = |event: &Event| *event == Event::ReadAfterWrite;
    world.nodes.iter().map(|node| node.events.count(is_one)).collect()
}

/// Requests for a key at its owner, 50 in a second.
async fn heat(world: &World, ask: &Ask, seconds: u64) {
    let owner = world.owner_of(ask);
    for _ in 0..50 * seconds {
        read(world, owner, ask).await;
        world.pass(20).await;
    }
}

async fn hot_world(seed: u64) -> (World, Ask) {
    let world = world(seed).await;
    let ask = world.ask(READ);
    heat(&world, &ask, 4).await;
    assert_eq!(world.nodes[world.owner_of(&ask)].engine.refresh().hot_keys(), 1);
    (world, ask)
}

/// Nobody asks after the write, and the owner alone reads the key. Its next reader finds a hit.
#[tokio::test(start_paused = true)]
async fn a_hot_key_is_read_anew_at_once() {
    let (world, ask) = hot_world(480).await;
    let owner = world.owner_of(&ask);
    for round in 1..5 {
        write(&world, (owner + round) % NODES).await;
        world.pass(RUN_MS + SOON_MS).await;
        let mut expected = vec![0; NODES];
        expected[owner] = round;
        assert_eq!((world.origin.runs(), read_after_writes(&world)), (1 + round, expected));
        for node in 0..NODES {
            let outcome = read(&world, node, &ask).await;
            assert!(is_hit(&outcome) && version(&outcome) == 1 + i64::try_from(round).unwrap());
        }
    }
    assert_eq!(world.nodes[owner].engine.refresh().begun(), 0);
}

/// Readers that come during that run join it, on every node.
#[tokio::test(start_paused = true)]
async fn readers_join_the_run() {
    let (world, ask) = hot_world(481).await;
    world.origin.set_slow(READ, 1_000);
    write(&world, 0).await;
    world.pass(50).await;
    let began = sim_now();
    let readers: Vec<_> = (0..30).map(|reader| world.send(reader % NODES, &ask)).collect();
    for reader in readers {
        assert_eq!(version(&reader.await.unwrap()), 2);
    }
    assert!(sim_now().since(began) <= Millis(1_000), "{:?}", sim_now().since(began));
    assert_eq!(world.origin.runs(), 2);
}

/// A key that is asked for seldom waits for its next reader, and so does one that no write has ended.
#[tokio::test(start_paused = true)]
async fn cold_keys_and_untouched_ones_are_left_alone() {
    let world = world(482).await;
    let cold = world.ask("MATCH (c:Left) RETURN c.version AS version");
    let untouched = world.ask("MATCH (u:Right) RETURN u.version AS version");
    heat(&world, &untouched, 4).await;
    for _ in 0..20 {
        read(&world, world.owner_of(&cold), &cold).await;
        world.pass(1_000).await;
    }
    let runs = world.origin.runs();
    world.send(0, &world.ask(hopcache_sim::world::write_statement::WRITE_LEFT)).await.unwrap();
    world.pass(1_000).await;
    assert_eq!((world.origin.runs(), read_after_writes(&world)), (runs, vec![0; NODES]));
}

/// A write each millisecond causes no run each: a key is read ahead as often as it is asked for, and looks have a pause.
#[tokio::test(start_paused = true)]
async fn many_writes_share_a_run() {
    let (world, ask) = hot_world(483).await;
    let (began, before) = (sim_now(), world.origin.runs());
    let mut writers = Vec::new();
    for writer in 0..1_000 {
        writers.push(world.send(writer % NODES, &world.ask(hopcache_sim::world::write_statement::WRITE)));
        world.pass(1).await;
    }
    for writer in writers {
        writer.await.unwrap();
    }
    world.pass(2 * RUN_MS + HOT_LOOK_PAUSE_MS).await;
    let runs = world.origin.runs() - before;
    let looks = sim_now().since(began).0 / HOT_LOOK_PAUSE_MS;
    assert!(runs >= 2 && runs as u64 <= looks + 1, "{runs} runs, {looks} looks");
    let outcome = read(&world, world.owner_of(&ask), &ask).await;
    assert_eq!(version(&outcome), i64::from(world.origin.version()));
}

/// A read that fails is not repeated with each write: its credentials may not be good any more.
#[tokio::test(start_paused = true)]
async fn a_failed_read_is_left_to_readers() {
    let (world, ask) = hot_world(484).await;
    let owner = world.owner_of(&ask);
    write(&world, 0).await;
    world.pass(RUN_MS + SOON_MS).await;
    world.pass(1_000).await;
    world.origin.set_slow(READ, 300);
    write(&world, 1).await;
    let failure = said("Neo.ClientError.Security.Unauthorized");
    world.origin.set_behavior(OriginBehavior::Fault(OriginFault::Unauthorized(failure)));
    world.pass(1_000).await;
    world.origin.set_behavior(OriginBehavior::Well);
    let (runs, refresh) = (world.origin.runs(), world.nodes[owner].engine.refresh());
    assert!(refresh.hot_keys() <= 1 && refresh.begun() == 0);
    assert!(runs <= 4, "{runs}");
    assert_eq!(version(&read(&world, owner, &ask).await), 3);
}
