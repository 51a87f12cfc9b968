//! I14: what a transaction that may write reads from the cache is current, or it can write no more.

use hopcache_engine::TransactionReads;
use hopcache_engine::ports::AccessMode;

use crate::prelude::*;
use tokio::task::JoinHandle;

use super::proofs::{BOUND_MS, FIRST, WATCH_MS, policy, proved, warm_world, warm_world_with};
use super::{NODES, warm, world_of};

/// The same request in a transaction that may write.
fn to_write(ask: &Ask) -> Ask {
    Ask { freshness: Freshness { may_write: true, ..ask.freshness }, ..ask.clone() }
}

/// Entries outlive their TTL in an outage.
fn lasting() -> Policy {
    Policy { stale_if_error_ms: Millis(600_000), ..policy(WATCH_MS) }
}

/// Whether a transaction that has read this can still write.
fn can_write(outcome: &Outcome) -> bool {
    let mut reads = TransactionReads::new(AccessMode::Write, None);
    reads.answered(&outcome.how);
    reads.may_go_on(true).is_ok()
}

fn was_run(outcome: &Outcome) -> bool {
    matches!(outcome.how.class, Class::Miss { .. })
}

/// G2, 3 s after a write past Hopcache: a reader still gets the entry by its age, and a transaction that may write does not.
#[tokio::test(start_paused = true)]
async fn by_age_nothing_is_read_that_may_be_written_upon() {
    let (world, [left, right]) = warm_world(480, WATCH_MS).await;
    world.origin.write_past();
    world.pass(BOUND_MS).await;
    for node in 0..NODES {
        let by_age = read(&world, node, &left).await;
        assert!(is_hit(&by_age) && version(&by_age) == FIRST && !can_write(&by_age), "{by_age:?}");
    }
    for ask in [&left, &right] {
        // Not from another node than the key's owner either: one hop carries what is asked for.
        for node in [world.owner_of(ask) + 1, world.owner_of(ask) + 2] {
            let read = read(&world, node % NODES, &to_write(ask)).await;
            assert!(version(&read) == FIRST + 1 && can_write(&read), "{read:?}");
        }
    }
    let runs = world.origin.runs();
    world.pass(BOUND_MS).await;
    for node in 0..NODES {
        assert_eq!(proved(&read(&world, node, &to_write(&left)).await), Some(FIRST + 1));
    }
    assert_eq!(world.origin.runs(), runs, "what was run is proved from then on");
}

/// What is proved costs no run, on any node, however old it is. Each such hit is counted once, by the node that was asked.
#[tokio::test(start_paused = true)]
async fn what_is_proved_is_read() {
    let (world, asks) = warm_world(481, WATCH_MS).await;
    let runs = world.origin.runs();
    for node in 0..NODES {
        for ask in &asks {
            let path = world.nodes[node].engine.path();
            let outcome = path.request(&to_write(ask), sim_now()).await;
            assert!(proved(&outcome) == Some(FIRST) && can_write(&outcome), "{outcome:?}");
            path.request(ask, sim_now()).await;
        }
        let counted = world.nodes[node].events.count(|event| *event == Event::WriteAccessHit);
        assert_eq!(counted, asks.len(), "reads with READ access do not count");
    }
    assert_eq!(world.origin.runs(), runs);
}

/// Near copies are kept and used, as long as they are proved.
#[tokio::test(start_paused = true)]
async fn a_near_copy_is_read_that_is_proved() {
    let hot = Policy { near_rate_per_s_min: 1.0, ..policy(WATCH_MS) };
    let (world, [left, _]) = warm_world_with(482, &hot, |_| {}).await;
    let entry = (world.owner_of(&left) + 1) % NODES;
    let ask = to_write(&left);
    let mut near = 0;
    for _ in 0..400 {
        let hit = world.nodes[entry].engine.path().hit(&ask);
        near += usize::from(hit.is_some());
        assert!(hit.is_none_or(|hit| proved(&hit) == Some(FIRST)));
        assert_eq!(proved(&read(&world, entry, &ask).await), Some(FIRST));
        world.pass(5).await;
    }
    assert!(near > 100, "{near} of 400 from the near copy");
}

/// Without proofs every read in such a transaction is a run, also one that `max-stale` would allow.
#[tokio::test(start_paused = true)]
async fn where_nothing_is_proved_each_read_is_a_run() {
    let world = world_of(NODES, 483, &default_policy()).await;
    let ask = world.ask(READ);
    warm(&world, &ask).await;
    let runs = world.origin.runs();
    let mut patient = to_write(&ask);
    patient.freshness.stale_max_ms = Some(Millis(600_000));
    for (place, ask) in [&to_write(&ask), &patient].into_iter().cycle().take(4).enumerate() {
        assert!(was_run(&read(&world, place % NODES, ask).await));
        assert_eq!(world.origin.runs(), runs + place + 1);
    }
    let strict =
        Ask { freshness: Freshness { only_if_cached: true, ..to_write(&ask).freshness }, ..ask.clone() };
    assert_eq!(read(&world, 0, &strict).await.how.detail, Some(Detail::NotCached));
    assert!(is_hit(&read(&world, 0, &ask).await), "a reader still hits");
}

/// G2, in an outage: the ended value is given, marked, and the transaction can write no more. When Neo4j is back, its next try
/// reads what is current.
#[tokio::test(start_paused = true)]
async fn in_an_outage_what_is_old_is_read_and_not_written_upon() {
    let (world, [left, right]) = warm_world_with(484, &lasting(), |_| {}).await;
    assert!(matches!(read(&world, 0, &world.ask(WRITE_LEFT)).await.answer, Answer::Body(_)));
    let now = i64::from(world.origin.version());
    world.origin.set_behavior(OriginBehavior::Fault(away()));
    world.origin.set_away(true);
    // Nobody proves anything any more.
    world.pass(BOUND_MS + FRESHNESS_LEASE_MS_DEFAULT).await;
    for node in 0..NODES {
        for ask in [&left, &right] {
            let began = sim_now();
            let old = read(&world, node, &to_write(ask)).await;
            assert!(version(&old) == FIRST && is_hit(&old) && !can_write(&old), "{old:?}");
            assert_eq!(old.how.detail, Some(Detail::StaleIfError), "marked, ended or not");
            assert!(sim_now().since(began) < Millis(100), "at once");
        }
    }
    world.origin.set_behavior(OriginBehavior::Well);
    world.origin.set_away(false);
    for node in 0..NODES {
        let read = read(&world, node, &to_write(&left)).await;
        assert!(version(&read) == now && can_write(&read), "{read:?}");
    }
}

/// A read waits for its run as long as Neo4j seems well, and no longer when it is known to be away: also what is still fresh by its
/// age stands in then.
#[tokio::test(start_paused = true)]
async fn an_outage_that_is_noticed_during_the_run_ends_the_wait() {
    for is_ended in [false, true] {
        let (world, [left, _]) = warm_world_with(485, &lasting(), |_| {}).await;
        read(&world, 0, &left).await;
        if is_ended {
            read(&world, 0, &world.ask(WRITE_LEFT)).await;
        } else {
            world.origin.write_past();
            world.pass(BOUND_MS).await;
        }
        world.origin.set_slow("Left", 20_000);
        let asked: Vec<_> = (0..NODES).map(|node| world.send(node, &to_write(&left))).collect();
        world.pass(4_000).await;
        assert!(asked.iter().all(|asked| !asked.is_finished()), "is it away? nobody knows");
        world.origin.set_away(true);
        world.pass(6_000).await;
        for asked in asked {
            let old = asked.await.unwrap();
            assert!(version(&old) == FIRST && old.how.detail == Some(Detail::StaleIfError), "{old:?}");
            assert!(!can_write(&old));
        }
    }
}

/// A read through the owner whose run a write past Hopcache overtakes: the write comes after the first of these times, the second one has
/// passed, and in the third one the run ends. The version that the run brings, and the read.
async fn overtaken_run(
    world: &World,
    ask: &Ask,
    [before, since, left]: [u64; 3],
) -> (i64, JoinHandle<Outcome>) {
    read(world, 0, &world.ask(WRITE_LEFT)).await;
    let version = i64::from(world.origin.version());
    world.origin.set_slow("Left", before + since + left);
    let reader = world.send(world.owner_of(ask), ask);
    world.pass(before).await;
    world.origin.write_past();
    world.pass(since).await;
    (version, reader)
}

/// A run of before may have missed a write of long before the request: it is no answer for it, on the owner and over a hop. One more
/// run is enough for all who came meanwhile.
#[tokio::test(start_paused = true)]
async fn a_run_that_began_before_is_not_joined() {
    // By its age the result would do.
    let lasting = Policy { ttl_ms: Millis(600_000), ..policy(WATCH_MS) };
    let (world, [left, _]) = warm_world_with(486, &lasting, |_| {}).await;
    let (before, reader) = overtaken_run(&world, &left, [1_000, 5_000, 4_000]).await;
    let runs = world.origin.runs();
    let writers: Vec<_> = (0..12).map(|place| world.send(place % NODES, &to_write(&left))).collect();
    assert_eq!(version(&reader.await.unwrap()), before);
    for writer in writers {
        let read = writer.await.unwrap();
        assert!(version(&read) == before + 1 && can_write(&read), "{read:?}");
    }
    assert_eq!(world.origin.runs(), runs + 1);
}

/// As above, and Neo4j cannot be reached when the run lands: connections that are open go on. The result stands in, marked, and nothing
/// is written upon it. So on the owner, and over a hop from nodes that do reach Neo4j: these run for themselves. The run lands before
/// anybody who waits looks again.
#[tokio::test(start_paused = true)]
async fn a_run_that_began_before_and_lands_in_an_outage_stands_in() {
    for owner_alone in [false, true] {
        let (world, [left, _]) = warm_world_with(488, &lasting(), |_| {}).await;
        let owner = world.owner_of(&left);
        let (before, reader) = overtaken_run(&world, &left, [500, 2_060, 30]).await;
        world.origin.cut_off(owner_alone.then_some(owner));
        world.origin.set_away(!owner_alone);
        let writers: Vec<_> = (0..NODES).map(|node| (node, world.send(node, &to_write(&left)))).collect();
        assert_eq!(version(&reader.await.unwrap()), before);
        for (node, writer) in writers {
            let outcome = writer.await.unwrap();
            if owner_alone && node != owner {
                assert!(version(&outcome) == before + 1 && can_write(&outcome), "{node}: {outcome:?}");
            } else {
                assert!(!can_write(&outcome), "{node}: {outcome:?}");
                assert_eq!(outcome.how.detail, Some(Detail::StaleIfError));
            }
        }
    }
}

/// What another node has stored counts if it is proved.
#[tokio::test(start_paused = true)]
async fn what_is_found_in_the_store_has_to_be_proved() {
    let (world, [left, _]) = warm_world(487, WATCH_MS).await;
    let owner = world.owner_of(&left);
    let anew = Freshness { no_cache: true, ..Freshness::default() };
    read(&world, owner, &Ask { freshness: anew, ..left.clone() }).await;
    let runs = world.origin.runs();
    for (passed_ms, expected, runs_more) in [(100, FIRST, 0), (BOUND_MS, FIRST + 1, 1)] {
        world.pass(passed_ms).await;
        committed(&world).await;
        world.nodes[owner].memory.forget_all();
        let read = read(&world, owner, &to_write(&left)).await;
        assert!(version(&read) == expected && can_write(&read), "{read:?}");
        assert_eq!(world.origin.runs(), runs + runs_more);
        world.origin.write_past();
    }
}
