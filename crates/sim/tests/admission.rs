//! What the store takes: keys that were run once stay in their owner's memory where there is no room for them.

use hopcache_core::admission::Room;

use crate::prelude::*;

const RUN_MS: u64 = 100;

fn without_room() -> Policy {
    Policy { store_room: Room { bytes: 0, life_ms: Millis(60_000) }, ..default_policy() }
}

fn kept(outcome: &Outcome) -> Option<Kept> {
    match outcome.how.class {
        Class::Miss { kept, .. } => Some(kept),
        _ => None,
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_run_once_lives_in_its_owners_memory() {
    let world = World::with_policy(3, 901, &without_room());
    let ask = world.ask(READ);
    let owner = world.owner_of(&ask);
    let first = read(&world, owner, &ask).await;
    assert_eq!(first.how.class, Class::Miss { kept: Kept::InMemory, role: Role::Led });
    assert!(first.how.ttl_ms.is_some_and(|ttl_ms| ttl_ms > 0), "it is kept: {:?}", first.how);
    for node in 0..3 {
        assert_eq!(read(&world, node, &ask).await.how.class, Class::Hit, "every node asks the owner");
    }
    committed(&world).await;
    assert_eq!((world.store.commits().len(), world.store.leases(), world.origin.runs()), (0, 0, 1));
    // The memory forgets it. Its next run shows that somebody wants it again.
    world.nodes[owner].memory.forget_all();
    assert_eq!(kept(&read(&world, owner, &ask).await), Some(Kept::Stored));
    committed(&world).await;
    world.nodes[owner].memory.forget_all();
    assert_eq!(read(&world, owner, &ask).await.how.class, Class::Hit, "the store has it");
    assert_eq!(world.origin.runs(), 2);
}

/// Another node tells its client what the owner's memory is: kept.
#[tokio::test(start_paused = true)]
async fn a_forwarded_answer_says_that_it_is_kept() {
    let world = World::with_policy(3, 902, &without_room());
    let ask = world.ask(READ);
    let entry = (world.owner_of(&ask) + 1) % 3;
    let first = read(&world, entry, &ask).await;
    assert!(kept(&first).is_some_and(Kept::is_kept), "{:?}", first.how);
    assert_eq!(world.store.commits().len(), 0);
}

/// I1 without an owner: the next one on the ring takes its place, and everybody asks that one.
#[tokio::test(start_paused = true)]
async fn after_the_owners_death_there_is_one_run() {
    let world = World::with_policy(3, 903, &without_room());
    let ask = world.ask(READ);
    let owner = world.owner_of(&ask);
    read(&world, owner, &ask).await;
    world.nodes[owner].process.set(Power::Off);
    for _ in 0..2 {
        for node in (0..3).filter(|node| *node != owner) {
            assert_eq!(version(&read(&world, node, &ask).await), 1);
        }
    }
    assert_eq!(world.origin.runs(), 2, "the dead owner's, and one of the others");
}

/// Who leads by a ring on which the key is another node's stores its result: others look for it only in the store.
#[tokio::test(start_paused = true)]
async fn who_leads_in_the_owners_place_stores() {
    let world = World::with_policy(2, 907, &without_room());
    let ask = world.ask(READ);
    let owner = world.owner_of(&ask);
    let other = 1 - owner;
    world.net.set_way_reset(other, owner, true);
    let names: Vec<_> = world.nodes.iter().map(|node| node.engine.me().node.clone()).collect();
    let asked = world.send(other, &ask);
    // The hop has failed, and the owner is back on the ring.
    world.pass(RUN_MS / 2).await;
    world.nodes[other].routing.set(&names);
    assert_eq!(kept(&asked.await.unwrap()), Some(Kept::Stored));
}

/// `no-cache` asks for more than the store has: its value replaces that.
#[tokio::test(start_paused = true)]
async fn a_run_of_no_cache_is_stored() {
    let world = World::with_policy(1, 904, &without_room());
    let freshness = Freshness { no_cache: true, age_max_ms: Some(Millis::ZERO), ..Freshness::default() };
    let ask = Ask { freshness, ..world.ask(READ) };
    assert_eq!(kept(&read(&world, 0, &ask).await), Some(Kept::Stored));
}

/// I3, F2: a holder that was stopped past its lease keeps nothing, although it offers nothing to the store.
///   it reads version 1 · the store loses its lease · another leader may have read version 2 · it goes on, and gives back
///   a lease that is not its own any more.
#[tokio::test(start_paused = true)]
async fn a_holder_without_its_lease_keeps_nothing() {
    let world = World::with_policy(1, 905, &without_room());
    let ask = world.ask(READ);
    let sent = world.send(0, &ask);
    world.pass(RUN_MS / 2).await;
    world.store.lose_everything();
    assert_eq!(kept(&sent.await.unwrap()), Some(Kept::InMemory), "the store was not asked yet");
    committed(&world).await;
    world.origin.set_version(2);
    assert_eq!(version(&read(&world, 0, &ask).await), 2, "it was kept");
}

/// A scan beside a working set: the store has what is asked again, and as much of the scan as there is room for.
#[tokio::test(start_paused = true)]
async fn a_scan_does_not_fill_the_store() {
    let room = Room { bytes: 500, life_ms: Millis(90_000) };
    let world = World::with_policy(1, 906, &Policy { store_room: room, ..default_policy() });
    let scanned: Vec<Ask> =
        (0..100).map(|n| world.ask(&format!("MATCH (n{n}) RETURN n{n}.version"))).collect();
    for ask in &scanned {
        read(&world, 0, ask).await;
    }
    committed(&world).await;
    let stored = world.store.commits().len();
    assert!((1..50).contains(&stored), "{stored} of 100");
    for ask in &scanned {
        assert_eq!(read(&world, 0, ask).await.how.class, Class::Hit, "memory has all of them");
    }
}
