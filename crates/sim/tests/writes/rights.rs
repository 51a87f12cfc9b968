//! A8: a write that changes users or rights is answered when no node relies on what Neo4j said of users before it.

use hopcache_engine::PendingWrite;
use hopcache_engine::ports::Users;
use std::sync::Weak;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{NODES, SOON_MS, warm, world_of, write_of};
use crate::prelude::*;

/// What a node was told of users.
#[derive(Default)]
struct Heard {
    changed: AtomicUsize,
    may_have_changed: AtomicUsize,
}

impl Users for Heard {
    fn have_changed(&self) {
        self.changed.fetch_add(1, Ordering::Relaxed);
    }

    fn may_have_changed(&self) {
        self.may_have_changed.fetch_add(1, Ordering::Relaxed);
    }
}

impl Heard {
    fn changed(&self) -> usize {
        self.changed.load(Ordering::Relaxed)
    }
}

/// A world whose Neo4j counts the ids of `system`, and what each node is told.
async fn listening(seed: u64) -> (World, Vec<Arc<Heard>>) {
    let policy = Policy { stale_if_error_ms: Millis(600_000), ..super::proved() };
    let world = world_of(NODES, seed, &policy).await;
    world.origin.count_exactly();
    let listeners = world.nodes.iter().map(|node| {
        let heard = Arc::<Heard>::default();
        let known: Weak<Heard> = Arc::downgrade(&heard);
        let users: [Weak<dyn Users>; 1] = [known];
        node.engine.writes().tell_of_users(users.into());
        heard
    });
    let listeners = listeners.collect();
    (world, listeners)
}

/// `ALTER USER` through a node, by a client of this database.
fn begin_alter_user(world: &World, node: usize, database: &str) -> PendingWrite {
    let ask = world.ask_in(database, READ, "neo4j");
    let write = write_of(&ask, Parts::None, Touched::nothing());
    world.nodes[node].engine.writes().begin(WriteOf { changes_rights: true, ..write })
}

/// Returns how long it took after Neo4j had answered.
async fn alter_user(world: &World, node: usize, database: &str) -> Millis {
    let write = begin_alter_user(world, node, database);
    world.origin.change_rights();
    let began = sim_now();
    write.committed(None).await;
    sim_now().since(began)
}

/// A1: Neo4j goes silent with a change under way. Whether it was carried out is known when Neo4j is back, and readers go on meanwhile.
#[tokio::test(start_paused = true)]
async fn a_change_in_doubt_takes_nothing_from_readers() {
    let (world, heard) = listening(495).await;
    let ask = world.ask(READ);
    warm(&world, &ask).await;
    let before: Vec<usize> = heard.iter().map(|heard| heard.changed()).collect();
    let write = begin_alter_user(&world, 0, "system");
    world.origin.set_behavior(OriginBehavior::Fault(away()));
    world.origin.set_away(true);
    write.in_doubt().await;
    for _ in 0..6 {
        world.pass(10_000).await;
        for node in 0..NODES {
            assert_eq!(version(&read(&world, node, &ask).await), 1);
        }
    }
    let after: Vec<usize> = heard.iter().map(|heard| heard.changed()).collect();
    assert_eq!(after, before, "nothing is certain");
    world.origin.set_behavior(OriginBehavior::Well);
    world.origin.set_away(false);
    world.pass(3_000).await;
    assert!(heard.iter().zip(before).all(|(heard, before)| heard.changed() > before));
}

/// Whatever database its client has named.
#[tokio::test(start_paused = true)]
async fn every_node_hears_of_a_change_before_it_is_answered() {
    for (seed, database) in [(491, "system"), (493, "neo4j")] {
        let (world, heard) = listening(seed).await;
        for round in 1..4 {
            let took_ms = alter_user(&world, round % NODES, database).await;
            assert!(took_ms < Millis(FRESHNESS_LEASE_MS_DEFAULT), "{database}: {took_ms:?}");
            for (node, heard) in heard.iter().enumerate() {
                assert!(heard.changed() >= round, "{database}: node {node} in round {round}");
            }
        }
    }
}

/// A node that nobody reaches, and that does not reach the store: the write waits until the node relies on nothing any more.
/// The node hears of the change before it is in touch again.
#[tokio::test(start_paused = true)]
async fn a_node_that_cannot_be_told_is_waited_for() {
    let (world, heard) = listening(494).await;
    let cut = |is_cut| {
        world.net.set_cut(&world.nodes[2].engine.me().node, is_cut);
        world.store.set_cut(2, is_cut);
    };
    let trusts = || world.nodes[2].engine.writes().trusts_users_for(sim_now());
    assert_eq!(trusts(), None, "in touch");
    cut(true);
    let took_ms = alter_user(&world, 0, "system").await;
    assert!(took_ms >= Millis(FRESHNESS_LEASE_MS_DEFAULT), "{took_ms:?}");
    assert_eq!((heard[2].changed(), trusts()), (0, Some(Millis(FRESHNESS_LEASE_MS_DEFAULT))));
    assert!(heard[1].changed() > 0);
    cut(false);
    while trusts().is_some() {
        assert_eq!(heard[2].may_have_changed.load(Ordering::Relaxed), 0, "not in touch yet");
        world.pass(1).await;
    }
    assert!(heard[2].changed() > 0 && heard[2].may_have_changed.load(Ordering::Relaxed) > 0);
    let took_ms = alter_user(&world, 0, "system").await;
    assert!(took_ms <= Millis(FRESHNESS_LEASE_MS_DEFAULT + SOON_MS), "{took_ms:?}: told again");
}
