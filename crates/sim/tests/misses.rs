//! A miss: the lease that it is granted, and how often it looks.

use crate::prelude::*;

/// F21: the store grants a `no-cache` request its lease, and the answer is lost. The request asks once more with the
/// same nonce, recognises its own lease, stores its result, and leaves no lease behind.
#[tokio::test(start_paused = true)]
async fn a_no_cache_run_knows_a_lease_whose_grant_was_lost() {
    let world = World::new(1, 21);
    let mut ask = world.ask(READ);
    ask.freshness = Freshness { no_cache: true, ..Freshness::default() };
    world.store.set_weather(Weather { lost_answers: 1_000, ..Weather::default() });
    let sent = world.send(0, &ask);
    world.pass(1).await;
    assert_eq!(world.store.grants(), 1, "the fault happened: granted, and the answer was lost");
    world.store.set_weather(Weather::default());
    let outcome = sent.await.unwrap();
    assert_eq!(outcome.how.class, Class::Miss { kept: Kept::Stored, role: Role::Led });
    assert_eq!((world.store.grants(), world.store.leases()), (1, 0));
    assert_eq!(world.send(0, &world.ask(READ)).await.unwrap().how.class, Class::Hit);
}

/// A cold miss looks its key up once in its owner's memory, for every way to the owner.
#[tokio::test(start_paused = true)]
async fn a_miss_looks_in_memory_once() {
    let world = World::new(3, 22);
    let (own, other) = (world.ask(READ), world.ask("MATCH (m) RETURN m.version AS version"));
    let looks = |node: usize| world.nodes[node].memory.looks();
    let owner = world.owner_of(&own);
    let before = looks(owner);
    let engine = &world.nodes[owner].engine;
    let outcome = engine.path().request(&own, sim_now()).await;
    assert!(matches!(outcome.how.class, Class::Miss { kept: Kept::Stored, .. }));
    assert_eq!(looks(owner) - before, 1, "its own client's");

    let owner = world.owner_of(&other);
    let before = looks(owner);
    assert!(matches!(world.send((owner + 1) % 3, &other).await.unwrap().how.class, Class::Miss { .. }));
    assert_eq!(looks(owner) - before, 1, "a forwarded one");
}

/// Two `no-cache` requests at a time with a healthy store: the second one runs beside the first one's lease, and its
/// answer says so. Neither it nor later hits of the copy report store trouble.
#[tokio::test(start_paused = true)]
async fn a_run_beside_anothers_lease_does_not_call_the_store_degraded() {
    let world = World::new(1, 23);
    let mut ask = world.ask(READ);
    ask.freshness = Freshness { no_cache: true, ..Freshness::default() };
    world.origin.set_delay_ms(500);
    let first = world.send(0, &ask);
    world.pass(100).await;
    let second = world.send(0, &ask).await.unwrap();
    let hit = world.send(0, &world.ask(READ)).await.unwrap();
    assert_eq!(world.store.grants(), 1, "the fault happened: the lease was another's");
    let first = first.await.unwrap();
    assert_eq!(
        (first.how.class, first.how.detail),
        (Class::Miss { kept: Kept::Stored, role: Role::Led }, None)
    );
    assert_eq!(second.how.class, Class::Miss { kept: Kept::Skipped, role: Role::Led });
    assert_eq!(second.how.detail, Some(Detail::Busy));
    assert_eq!(hit.how.class, Class::Hit);
    assert_ne!(hit.how.detail, Some(Detail::Degraded), "the store is well");
}
