//! Nodes that cannot be told of a write, because they are dead, or seem so: their leases of freshness decide how long it waits.

use super::{NODES, SOON_MS, warm, world, write};
use crate::prelude::*;

/// A killed node delays a write by its lease, once.
#[tokio::test(start_paused = true)]
async fn a_killed_node_delays_a_write_by_its_lease_at_most() {
    let world = world(423).await;
    world.nodes[2].process.set(Power::Off);
    let (_, took_ms) = write(&world, 0).await;
    assert!(took_ms > Millis(100 + SOON_MS), "{took_ms:?}: it may live");
    assert!(took_ms <= Millis(100 + FRESHNESS_LEASE_MS_DEFAULT + SOON_MS), "{took_ms:?}");
    let (_, took_ms) = write(&world, 0).await;
    assert!(took_ms <= Millis(100 + SOON_MS), "{took_ms:?}");
}

/// A node that leaves in order gives its lease back: nobody waits for it.
#[tokio::test(start_paused = true)]
async fn a_node_that_has_left_is_not_waited_for() {
    let world = world(426).await;
    world.nodes[2].engine.writes().say_farewell().await;
    world.nodes[2].process.set(Power::Off);
    let (_, took_ms) = write(&world, 0).await;
    assert!(took_ms <= Millis(100 + SOON_MS), "{took_ms:?}");
}

/// Resets come from a firewall between two nodes. The node behind it serves its clients, and has its lease: it is waited for.
#[tokio::test(start_paused = true)]
async fn a_node_whose_connections_are_reset_serves_nothing_from_before_a_write() {
    let world = world(427).await;
    let ask = world.ask(READ);
    let owner = world.owner_of(&ask);
    let writer = (owner + 1) % NODES;
    warm(&world, &ask).await;
    world.net.set_way_reset(writer, owner, true);
    for round in 2..6_u32 {
        let (_, took_ms) = write(&world, writer).await;
        assert!(took_ms <= Millis(100 + FRESHNESS_LEASE_MS_DEFAULT + SOON_MS), "{took_ms:?}");
        assert_eq!(version(&read(&world, owner, &ask).await), i64::from(round));
        world.pass(u64::from(round) * 37).await;
    }
}
