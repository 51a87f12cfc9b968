//! Issue 5, "Limits": what is shared when nothing is kept (TTL 0), and when runs are not shared at all.

use hopcache_core::time::Millis;
use hopcache_engine::Policy;
use hopcache_engine::outcome::{Answer, Class, Detail, Event, Kept, Outcome, Role};
use hopcache_engine::ports::Scope;
use hopcache_sim::World;
use hopcache_sim::policy::default_policy;

const READ: &str = "MATCH (n) RETURN n.version AS version";
const RUN_MS: u64 = 100;

fn version(outcome: &Outcome) -> Option<i64> {
    let Answer::Body(body) = &outcome.answer else { return None };
    let text = String::from_utf8_lossy(body).into_owned();
    text.split("[[").nth(1)?.split(',').next()?.parse().ok()
}

fn off() -> Policy {
    Policy { ttl_ms: Millis::ZERO, ..default_policy() }
}

fn unshared() -> Policy {
    Policy { collapses: false, ..default_policy() }
}

fn count(world: &World, node: usize, what: impl Fn(&Event) -> bool) -> usize {
    world.nodes[node].events.count(what)
}

/// TTL 0: whoever comes while a run is under way gets its result, also one that came after its read began; whoever
/// comes after it has ended gets a read of its own. Nothing is kept anywhere.
#[tokio::test(start_paused = true)]
async fn without_a_ttl_only_the_run_under_way_is_shared() {
    let world = World::with_policy(1, 61, &off());
    let ask = world.ask(READ);
    let first = world.send(0, &ask);
    world.pass(RUN_MS / 2).await;
    assert_eq!(world.origin.runs(), 1, "its read has begun");
    let joins = world.send(0, &ask);
    for (outcome, role) in [(first.await.unwrap(), Role::Led), (joins.await.unwrap(), Role::Joined)] {
        assert_eq!(version(&outcome), Some(1));
        assert_eq!(outcome.how.class, Class::Miss { kept: Kept::Skipped, role });
        assert_eq!(outcome.how.detail, Some(Detail::Off));
    }
    assert_eq!(world.origin.runs(), 1);
    world.origin.set_version(2);
    for run in 2..5 {
        let outcome = world.send(0, &ask).await.unwrap();
        assert_eq!((version(&outcome), world.origin.runs()), (Some(2), run));
    }
    assert!(world.store.commits().is_empty(), "nothing was offered to the store");
    assert_eq!(world.nodes[0].engine.leases_held(), 0);
}

/// The same between nodes: one run for those who ask anywhere while it is under way.
#[tokio::test(start_paused = true)]
async fn without_a_ttl_nodes_share_the_run_under_way() {
    let world = World::with_policy(3, 62, &off());
    let ask = world.ask(READ);
    for runs in 1..4 {
        let sent: Vec<_> = (0..30).map(|client| world.send(client % 3, &ask)).collect();
        for outcome in sent {
            assert_eq!(version(&outcome.await.unwrap()), Some(1));
        }
        assert_eq!(world.origin.runs(), runs);
    }
}

/// `entry.collapse = false`: each miss runs; what was read is a hit for its TTL at whichever node it is asked; no
/// lease, no flight, nothing in the store.
#[tokio::test(start_paused = true)]
async fn unshared_misses_each_run_and_then_hit_for_the_ttl() {
    let world = World::with_policy(3, 63, &unshared());
    let ask = world.ask(READ);
    let sent: Vec<_> = (0..20).map(|client| world.send(client % 3, &ask)).collect();
    for outcome in sent {
        let outcome = outcome.await.unwrap();
        assert_eq!(version(&outcome), Some(1));
        assert_eq!(outcome.how.class, Class::Miss { kept: Kept::Skipped, role: Role::Led });
        assert_eq!(outcome.how.detail, None);
    }
    assert_eq!(world.origin.runs(), 20, "each ran for itself");
    for node in 0..3 {
        let outcome = world.send(node, &ask).await.unwrap();
        assert_eq!((outcome.how.class, outcome.how.detail), (Class::Hit, None), "node {node}");
        assert!(outcome.how.ttl_ms.is_some_and(|left| left > 50_000), "{:?}: the whole TTL", outcome.how);
        let of_flights =
            |event: &Event| matches!(event, Event::LeaseGrant(_) | Event::Joined | Event::Landed { .. });
        assert_eq!(count(&world, node, of_flights), 0);
    }
    assert!(world.store.commits().is_empty());
    world.origin.set_version(2);
    world.pass(100_000).await;
    let later = world.ask(READ);
    assert_eq!(
        version(&world.send(0, &later).await.unwrap()),
        Some(2),
        "past TTL and grace it is read again"
    );
}

/// I3: a purge between an unshared read and its being kept is not undone by it.
#[tokio::test(start_paused = true)]
async fn an_unshared_read_from_before_a_purge_is_not_kept() {
    let world = World::with_policy(1, 64, &unshared());
    let ask = world.ask(READ);
    let reads = world.send(0, &ask);
    world.pass(RUN_MS / 2).await;
    assert_eq!(world.origin.runs(), 1, "it has read");
    world.origin.set_version(2);
    world.nodes[0].engine.purge(&Scope::All).await;
    assert_eq!(version(&reads.await.unwrap()), Some(1));
    let after = world.send(0, &ask).await.unwrap();
    assert_eq!((version(&after), world.origin.runs()), (Some(2), 2));
    assert_eq!(world.send(0, &ask).await.unwrap().how.class, Class::Hit);
}
