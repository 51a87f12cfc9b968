//! A bug of the admission to the store. The same rule is checked without it by `crates/sim/tests/admission.rs`.

use hopcache_core::admission::Room;
use hopcache_core::seeded::Bug;
use hopcache_core::time::Millis;
use hopcache_engine::Policy;
use hopcache_sim::World;
use hopcache_sim::world::policy::default_policy;

use super::{answered, run_with};

/// What a node answers whose run outlived its lease, and whose store takes no key that was run once:
///   it reads version 1 · the store loses its lease · another leader may have read version 2 · it goes on, and is asked again.
fn answer_after_a_lost_lease(bug: Option<Bug>) -> String {
    run_with(bug, async {
        let room = Room { bytes: 0, life_ms: Millis(60_000) };
        let world = World::with_policy(1, 91, &Policy { store_room: room, ..default_policy() });
        let ask = world.ask("MATCH (n) RETURN n.version AS version");
        let sent = world.send(0, &ask);
        world.pass(50).await;
        world.store.lose_everything();
        sent.await.unwrap();
        world.origin.set_version(2);
        answered(&world, 0, &ask).await
    })
}

/// I3, F2: the fence holds for entries that are offered to no store.
#[test]
fn memory_without_a_lease_is_seen() {
    let (well, ill) =
        (answer_after_a_lost_lease(None), answer_after_a_lost_lease(Some(Bug::InMemoryWithoutLease)));
    println!("InMemoryWithoutLease: answered {ill}, and {well} without it");
    assert!(well.contains("[[2,") && ill.contains("[[1,"), "{well}, {ill}");
}
