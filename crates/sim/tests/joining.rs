//! What a request that joins somebody else's flight or forward still has for itself: its deadline, its
//! credentials, its freshness.

use hopcache_core::time::Millis;
use hopcache_engine::ask::{Ask, Freshness};
use hopcache_engine::outcome::{Answer, Detail, FailureKind, Outcome};
use hopcache_engine::ports::OriginFault;
use hopcache_sim::World;
use hopcache_sim::origin::Mood;
use hopcache_sim::world::sim_now;

const READ: &str = "MATCH (n) RETURN n.version AS version";

fn other_than_owner(world: &World, ask: &Ask) -> usize {
    (world.owner_of(ask) + 1) % world.nodes.len()
}

fn kind(outcome: &Outcome) -> Option<FailureKind> {
    match &outcome.answer {
        Answer::Failed(failure) => Some(failure.kind.clone()),
        Answer::Body(_) => None,
    }
}

fn version(outcome: &Outcome) -> String {
    match &outcome.answer {
        Answer::Body(body) => {
            let text = String::from_utf8_lossy(body).into_owned();
            text.split("[[").nth(1).and_then(|rest| rest.split(',').next()).unwrap_or_default().to_owned()
        }
        Answer::Failed(failure) => format!("{failure:?}"),
    }
}

/// A forward is shared; the deadline of the client that began it is not.
#[tokio::test(start_paused = true)]
async fn a_follower_of_a_forward_waits_by_its_own_deadline() {
    let world = World::new(2, 31);
    world.origin.set_delay_ms(1_000);
    let patient = world.ask(READ);
    let mut hasty = patient.clone();
    hasty.deadline = sim_now() + Millis(100);
    let node = other_than_owner(&world, &patient);
    let first = world.send(node, &hasty);
    world.pass(10).await;
    let second = world.send(node, &patient);
    assert_eq!(kind(&first.await.unwrap()), Some(FailureKind::DeadlinePassed));
    assert_eq!(version(&second.await.unwrap()), "1");
    assert_eq!(world.origin.runs(), 1, "the flight at the owner went on");
}

/// A leader's bad luck is tried once more, behind a forward as at the owner.
#[tokio::test(start_paused = true)]
async fn behind_a_forward_a_leaders_bad_luck_is_tried_once_more() {
    let world = World::new(2, 32);
    world.origin.set_mood(Mood::Fault(OriginFault::Cut("seeded".into())));
    let ask = world.ask(READ);
    let node = other_than_owner(&world, &ask);
    let first = world.send(node, &ask);
    world.pass(10).await;
    let second = world.send(node, &ask);
    world.pass(70).await;
    world.origin.set_mood(Mood::Well);
    assert_eq!(kind(&first.await.unwrap()), Some(FailureKind::OriginCut));
    assert_eq!(version(&second.await.unwrap()), "1");
}

/// RFC 9111, 5.2.1: `max-age` holds for a request that joined a flight as for any other.
#[tokio::test(start_paused = true)]
async fn max_age_holds_for_a_follower() {
    let world = World::new(1, 33);
    world.send(0, &world.ask(READ)).await.unwrap();
    world.nodes[0].memory.forget_all();
    world.origin.set_version(2);
    world.pass(30_000).await;
    let plain = world.ask(READ);
    let mut young = plain.clone();
    young.freshness = Freshness { age_max_ms: Some(Millis(1_000)), ..Freshness::default() };
    let leads = world.send(0, &plain);
    let follows = world.send(0, &young);
    assert_eq!(version(&leads.await.unwrap()), "1", "30 s old, and fresh");
    assert_eq!(version(&follows.await.unwrap()), "2");
}

/// `max-stale=0` means fresh, also where others are served stale.
#[tokio::test(start_paused = true)]
async fn max_stale_holds_for_a_follower() {
    let world = World::new(1, 34);
    world.send(0, &world.ask(READ)).await.unwrap();
    world.nodes[0].memory.forget_all();
    world.origin.set_version(2);
    world.pass(70_000).await;
    let plain = world.ask(READ);
    let mut fresh = plain.clone();
    fresh.freshness = Freshness { stale_max_ms: Some(Millis::ZERO), ..Freshness::default() };
    let leads = world.send(0, &plain);
    let follows = world.send(0, &fresh);
    assert_eq!(leads.await.unwrap().how.detail, Some(Detail::Stale));
    assert_eq!(version(&follows.await.unwrap()), "2");
}

/// `only-if-cached`: nobody asks the origin for this request, not for a write either.
#[tokio::test(start_paused = true)]
async fn only_if_cached_never_reaches_the_origin() {
    let world = World::new(2, 35);
    world.send(0, &world.ask(READ)).await.unwrap();
    world.pass(61_000).await;
    let before = world.origin.runs();
    for statement in [READ, "CREATE (n) RETURN n", "RETURN rand()"] {
        let mut ask = world.ask(statement);
        ask.freshness = Freshness { only_if_cached: true, ..Freshness::default() };
        for node in 0..2 {
            assert_eq!(
                kind(&world.send(node, &ask).await.unwrap()),
                Some(FailureKind::NotCached),
                "{statement}"
            );
        }
    }
    world.pass(5_000).await;
    assert_eq!(world.origin.runs(), before, "no refresh either");
}

/// F39, I1: a corrupt stale entry costs nobody their lease.
#[tokio::test(start_paused = true)]
async fn a_corrupt_stale_entry_is_replaced_under_the_lease() {
    let world = World::new(1, 36);
    let ask = world.ask(READ);
    world.send(0, &ask).await.unwrap();
    world.nodes[0].memory.forget_all();
    world.store.corrupt(&ask.query.key);
    world.origin.set_version(2);
    world.pass(61_000).await;
    assert_eq!(version(&world.send(0, &world.ask(READ)).await.unwrap()), "2");
    assert_eq!(world.origin.runs(), 2);
    let stored = world
        .store
        .commits()
        .into_iter()
        .filter(|(_, _, commit)| *commit == hopcache_core::lease::Commit::Stored);
    assert_eq!(stored.count(), 2, "the second commit was not fenced by its own finder");
}
