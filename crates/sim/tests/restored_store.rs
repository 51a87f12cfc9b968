//! F43 and F44: the store's content goes back, to a snapshot or by a fail-over to a replica that lagged. It counts as
//! empty, and nodes forget copies that they keep on the word of its log.

use crate::prelude::*;

const OTHER: &str = "MATCH (m) RETURN m.version AS version";

async fn answered(world: &World, node: usize, ask: &Ask) -> i64 {
    version(&world.send(node, ask).await.unwrap())
}

/// I4: an entry that a purge removed comes back with a snapshot, and is not served.
#[tokio::test(start_paused = true)]
async fn a_purged_entry_that_comes_back_is_not_served() {
    let world = World::new(2, 61);
    let ask = world.ask(READ);
    assert_eq!(answered(&world, 0, &ask).await, 1);
    committed(&world).await;
    world.origin.set_version(2);
    let purged = world.nodes[0].engine.invalidate().purge(&Scope::Key(ask.query.key)).await;
    assert_eq!((purged.store, purged.unreached), (Ok(1), 0));
    world.store.fall_back(1);
    for node in 0..2 {
        assert_eq!(answered(&world, node, &ask).await, 2, "node {node} was given what had been purged");
    }
    assert_eq!(world.origin.runs(), 2);
}

/// I3: a lease that a purge ended comes back with a snapshot. Its run read before the purge, and is not stored.
#[tokio::test(start_paused = true)]
async fn a_replaced_lease_that_comes_back_does_not_commit() {
    let world = World::new(2, 62);
    let ask = world.ask(READ);
    world.origin.set_delay_ms(500);
    let led = world.send(world.owner_of(&ask), &ask);
    world.pass(100).await;
    assert_eq!((world.store.leases(), world.origin.under_way()), (1, 1));
    world.origin.set_version(2);
    world.nodes[0].engine.invalidate().purge(&Scope::All).await;
    assert_eq!(world.store.leases(), 0);
    world.store.fall_back(1);
    let outcome = led.await.unwrap();
    assert_eq!(version(&outcome), 1, "a request from before the purge may have it");
    assert_eq!(outcome.how.class, Class::Miss { kept: Kept::Fenced, role: Role::Led }, "stored after it");
    assert_eq!(answered(&world, 1, &ask).await, 2);
}

/// F44: between two polls of a node, the store's log loses its last record, which the node had read, and another purge
/// takes its number. No message reaches the node.
#[tokio::test(start_paused = true)]
async fn a_record_that_took_the_number_of_a_lost_one_is_not_skipped() {
    let world = World::new(2, 63);
    let (ask, other) = (world.ask(READ), world.ask(OTHER));
    let reader = world.owner_of(&ask);
    follow(&world.nodes[reader]);
    world.pass(10).await;
    assert_eq!(answered(&world, reader, &ask).await, 1);
    // The record is to be the store's last change.
    committed(&world).await;
    world.net.set_way_cut(1 - reader, reader, true);
    let purger = world.nodes[1 - reader].engine.clone();
    assert_eq!(purger.invalidate().purge(&Scope::Key(other.query.key)).await.unreached, 1);
    world.pass(INVALIDATION_POLL_MS).await;
    assert!(world.nodes[reader].engine.path().hit(&ask).is_some(), "the purge was of another key");
    // The reader has read that record. The store falls back to before it, and another takes its place.
    world.store.fall_back(1);
    world.origin.set_version(2);
    assert_eq!(purger.invalidate().purge(&Scope::Key(ask.query.key)).await.unreached, 1);
    world.pass(INVALIDATION_POLL_MS + 10).await;
    assert_eq!(answered(&world, reader, &ask).await, 2, "its purge had the number of one that was read");
}
