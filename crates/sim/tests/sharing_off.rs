//! With TTL 0 nothing is kept, and requests share only the run under way.

use hopcache_core::time::Millis;
use hopcache_engine::Policy;
use hopcache_engine::outcome::{Class, Detail, Kept, Role};
use hopcache_sim::World;
use hopcache_sim::world::policy::default_policy;

use crate::outcome::version_in;

const READ: &str = "MATCH (n) RETURN n.version AS version";
const RUN_MS: u64 = 100;

fn off() -> Policy {
    Policy { ttl_ms: Millis::ZERO, ..default_policy() }
}

/// TTL 0: a request that comes while a run is under way gets its result, even if it came after the read began. A
/// request after the run's end gets its own read. No node keeps a copy.
#[tokio::test(start_paused = true)]
async fn without_a_ttl_only_the_run_under_way_is_shared() {
    let world = World::with_policy(1, 61, &off());
    let ask = world.ask(READ);
    let first = world.send(0, &ask);
    world.pass(RUN_MS / 2).await;
    assert_eq!(world.origin.runs(), 1, "its read has begun");
    let joins = world.send(0, &ask);
    for (outcome, role) in [(first.await.unwrap(), Role::Led), (joins.await.unwrap(), Role::Joined)] {
        assert_eq!(version_in(&outcome), Some(1));
        assert_eq!(outcome.how.class, Class::Miss { kept: Kept::Skipped, role });
        assert_eq!(outcome.how.detail, Some(Detail::Off));
    }
    assert_eq!(world.origin.runs(), 1);
    world.origin.set_version(2);
    for run in 2..5 {
        let outcome = world.send(0, &ask).await.unwrap();
        assert_eq!((version_in(&outcome), world.origin.runs()), (Some(2), run));
    }
    assert!(world.store.commits().is_empty(), "nothing was offered to the store");
    assert_eq!(world.nodes[0].engine.fetch().leases_held(), 0);
}

/// The same between nodes: one run for all requests at any node while it is under way.
#[tokio::test(start_paused = true)]
async fn without_a_ttl_nodes_share_the_run_under_way() {
    let world = World::with_policy(3, 62, &off());
    let ask = world.ask(READ);
    for runs in 1..4 {
        let sent: Vec<_> = (0..30).map(|client| world.send(client % 3, &ask)).collect();
        for outcome in sent {
            assert_eq!(version_in(&outcome.await.unwrap()), Some(1));
        }
        assert_eq!(world.origin.runs(), runs);
    }
}
