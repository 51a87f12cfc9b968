//! Proofs of freshness: what is served past its TTL without a run, and what ends that.

use hopcache_core::limits::{WATCH_SILENT_MS_MIN, WRITTEN_POLL_MS_MAX};

use super::{NODES, world_of};
use crate::prelude::*;

pub(super) const LEFT: &str = "MATCH (n:Left) RETURN n.version AS version";
pub(super) const RIGHT: &str = "MATCH (n:Right) RETURN n.version AS version";
pub(super) const FIRST: i64 = 100;
pub(super) const WATCH_MS: u64 = 100;
const TTL_MS: u64 = 2_000;
/// For how long after a foreign write an entry from before it may be served as proved, and some milliseconds for messages.
pub(super) const BOUND_MS: u64 = 2 * FRESHNESS_LEASE_MS_DEFAULT + 2 * WATCH_MS + 20;
/// Longer than grace: only a proof lets an entry live so long.
pub(super) const LONG_MS: u64 = 5 * TTL_MS;

pub(super) fn policy(watch_ms: u64) -> Policy {
    let proofs = ProofSettings {
        watch_ms: Millis(watch_ms),
        life_ms_max: Millis(600_000),
        is_captured: false,
        is_marked: false,
    };
    Policy { ttl_ms: Millis(TTL_MS), proofs: Some(proofs), ..super::proved() }
}

/// A world whose origin counts ids as Neo4j does, and in which both reads are in memory and proved.
pub(super) async fn warm_world(seed: u64, watch_ms: u64) -> (World, [Ask; 2]) {
    warm_world_with(seed, &policy(watch_ms), |_| {}).await
}

/// The same, with an origin that is prepared.
pub(super) async fn warm_world_with(
    seed: u64,
    policy: &Policy,
    prepare: impl FnOnce(&World),
) -> (World, [Ask; 2]) {
    let world = world_of(NODES, seed, policy).await;
    prepare(&world);
    let asks = warm_reads(&world).await;
    (world, asks)
}

/// Both reads, in memory and proved.
pub(super) async fn warm_reads(world: &World) -> [Ask; 2] {
    world.origin.count_exactly();
    world.origin.set_version(FIRST);
    world.origin.set_delay_ms(20);
    let asks = [LEFT, RIGHT].map(|statement| world.ask(statement));
    // What was read before the first report is not proved: users and rights may have changed since.
    for _ in 0..3 {
        for ask in &asks {
            for node in 0..NODES {
                read(world, node, ask).await;
            }
        }
        world.pass(2 * TTL_MS).await;
    }
    asks
}

/// The answer of a hit that is proved.
pub(super) fn proved(outcome: &Outcome) -> Option<i64> {
    outcome.how.is_proved.then(|| {
        assert!(is_hit(outcome) && outcome.how.detail.is_none(), "{outcome:?}");
        version(outcome)
    })
}

async fn write(world: &World, node: usize, statement: &str) -> Outcome {
    world.send(node, &world.ask(statement)).await.unwrap()
}

/// The node that watches the database: the one whose accounts go on.
pub(super) async fn watcher(world: &World) -> usize {
    let is_watched = |event: &Event| matches!(event, Event::Watched(_));
    let counts = || world.nodes.iter().map(|node| node.events.count(is_watched)).collect::<Vec<_>>();
    let before = counts();
    world.pass(10 * WATCH_MS).await;
    (0..NODES).max_by_key(|node| counts()[*node] - before[*node]).unwrap()
}

/// An own write ends the proofs of what it touches, at once and on every node, and keeps all others.
#[tokio::test(start_paused = true)]
async fn an_own_write_ends_what_it_touches_and_nothing_else() {
    let (world, [left, right]) = warm_world(461, WATCH_MS).await;
    write(&world, 0, WRITE_ELSEWHERE).await;
    for node in 0..NODES {
        for ask in [&left, &right] {
            assert_eq!(proved(&read(&world, node, ask).await), Some(FIRST));
        }
    }
    assert!(matches!(write(&world, 1, WRITE_LEFT).await.answer, Answer::Body(_)));
    let now = i64::from(world.origin.version());
    for node in 0..NODES {
        assert_eq!(version(&read(&world, node, &left).await), now);
        assert_eq!(proved(&read(&world, node, &right).await), Some(FIRST));
    }
    // Also a long time after: the watcher has accounted for the write.
    let runs = world.origin.runs();
    world.pass(LONG_MS).await;
    for node in 0..NODES {
        assert_eq!(proved(&read(&world, node, &left).await), Some(now));
        assert_eq!(proved(&read(&world, node, &right).await), Some(FIRST));
    }
    assert_eq!(world.origin.runs(), runs);
}

/// The same request of a client that has seen this transaction.
pub(super) fn after(ask: &Ask, id: u32) -> Ask {
    Ask { bookmarks: bookmark(id.into()), ..ask.clone() }
}

/// Each node has written with each label once: a later write takes no id for a name. The watcher has accounted for that, and both
/// reads are proved again. Their answers.
pub(super) async fn settled_writers(world: &World, asks: &[Ask; 2]) -> [Option<i64>; 2] {
    for node in 0..NODES {
        for statement in [WRITE_LEFT, WRITE_ELSEWHERE] {
            write(world, node, statement).await;
        }
    }
    let mut answers = [None; 2];
    for _ in 0..3 {
        for node in 0..NODES {
            for (ask, answer) in asks.iter().zip(&mut answers) {
                *answer = Some(version(&read(world, node, ask).await));
            }
        }
        world.pass(2 * TTL_MS).await;
    }
    answers
}

/// A driver sends the bookmark of its write with the next reads. What the write did not touch answers them at once, on every node,
/// before any watcher has looked.
#[tokio::test(start_paused = true)]
async fn the_bookmark_of_an_own_write_is_answered_at_once() {
    let (world, asks) = warm_world(480, WATCH_MS).await;
    let [_, before] = settled_writers(&world, &asks).await;
    let [left, right] = asks;
    let runs = world.origin.runs();
    for (node, statement) in [(0, WRITE_LEFT), (1, WRITE_ELSEWHERE), (1, WRITE_LEFT), (2, WRITE_LEFT)] {
        write(&world, node, statement).await;
        let now = world.origin.version();
        for node in 0..NODES {
            let answer = read(&world, node, &after(&right, now)).await;
            assert_eq!(proved(&answer), before, "{statement} {node}");
        }
    }
    assert_eq!(world.origin.runs(), runs, "reads");
    let now = world.origin.version();
    assert_eq!(version(&read(&world, 0, &after(&left, now)).await), i64::from(now));
}

/// A bookmark of after a foreign transaction is not: nobody here knows what that has touched.
#[tokio::test(start_paused = true)]
async fn a_bookmark_of_after_a_foreign_write_is_not_answered() {
    let (world, asks) = warm_world(481, WATCH_MS).await;
    settled_writers(&world, &asks).await;
    let [_, right] = asks;
    for node in 0..NODES {
        world.origin.write_past();
        let foreign = i64::from(world.origin.version());
        write(&world, node, WRITE_LEFT).await;
        let now = world.origin.version();
        for node in 0..NODES {
            assert!(version(&read(&world, node, &after(&right, now)).await) >= foreign);
        }
    }
}

/// A write past all nodes ends all proofs within the bound. Entries are served by age from then on, until they are read anew.
#[tokio::test(start_paused = true)]
async fn a_foreign_write_ends_proofs_within_the_bound() {
    let (world, [left, _]) = warm_world(462, WATCH_MS).await;
    world.origin.write_past();
    world.pass(BOUND_MS).await;
    for node in 0..NODES {
        assert_eq!(proved(&read(&world, node, &left).await), None);
    }
    world.pass(LONG_MS).await;
    read(&world, 0, &left).await;
    world.pass(LONG_MS).await;
    for node in 0..NODES {
        assert_eq!(proved(&read(&world, node, &left).await), Some(FIRST + 1));
    }
}

/// F3 of the cases: which write it was that took the proof away is known to every node, and until the next read.
#[tokio::test(start_paused = true)]
async fn explain_names_the_foreign_write_that_took_a_proof_away() {
    let (world, [left, _]) = warm_world(464, WATCH_MS).await;
    let explain = async |node: usize| {
        world.nodes[node].engine.path().explain(&left.query, Hints::default()).await.foreign
    };
    for node in 0..NODES {
        assert_eq!(explain(node).await, None, "it is proved");
    }
    world.origin.write_past();
    let foreign = world.origin.version();
    world.pass(BOUND_MS).await;
    world.origin.write_past();
    world.pass(BOUND_MS).await;
    for node in 0..NODES {
        let seen = explain(node).await.expect("a foreign write");
        assert_eq!(seen.transaction.0, u64::from(foreign), "the first after the read");
        assert!((BOUND_MS..3 * BOUND_MS).contains(&seen.ago_ms.0), "{seen:?}");
    }
}

/// The one hole, as it is stated: a write that takes no id although its counters say that it has changed something hides one
/// foreign id between the account before it and its own end, and no later one.
#[tokio::test(start_paused = true)]
async fn a_write_without_an_id_hides_one_foreign_write() {
    let (world, [left, right]) = warm_world(463, WATCH_MS).await;
    for _ in 0..2 {
        write(&world, 0, WRITE_LEFT).await;
        world.pass(LONG_MS).await;
    }
    let before = version(&read(&world, 0, &right).await);
    world.origin.set_write_fate(WriteFate::NoEffect);
    world.origin.write_past();
    write(&world, 0, WRITE_LEFT).await;
    world.pass(BOUND_MS).await;
    assert_eq!(proved(&read(&world, 0, &right).await), Some(before), "hidden");
    write(&world, 0, WRITE_LEFT).await;
    world.origin.write_past();
    world.pass(BOUND_MS).await;
    for ask in [&left, &right] {
        assert_eq!(proved(&read(&world, 0, ask).await), None);
    }
}

/// The watcher is stopped: what it does not see is not proved for longer than the bound. Another node takes its place.
#[tokio::test(start_paused = true)]
async fn without_a_watcher_nothing_is_proved_for_long() {
    let (world, [left, _]) = warm_world(464, WATCH_MS).await;
    let watcher = watcher(&world).await;
    let reader = (0..NODES).find(|node| *node != watcher && world.owner_of(&left) == *node);
    // Some statement whose owner is not the watcher.
    let (reader, ask) = match reader {
        Some(reader) => (reader, left),
        None => {
            let asks = (0..20).map(|n| world.ask(&format!("MATCH (n:Left) RETURN n.version, {n}")));
            let ask = asks.into_iter().find(|ask| world.owner_of(ask) != watcher).unwrap();
            (world.owner_of(&ask), ask)
        }
    };
    read(&world, reader, &ask).await;
    world.pass(BOUND_MS).await;
    assert_eq!(proved(&read(&world, reader, &ask).await), Some(FIRST));
    world.nodes[watcher].process.set(Power::Paused);
    world.origin.write_past();
    world.pass(BOUND_MS).await;
    assert_eq!(proved(&read(&world, reader, &ask).await), None);
    world.pass(WATCH_SILENT_MS_MIN + LONG_MS).await;
    read(&world, reader, &ask).await;
    // The stopped one is on the ring still. Another one reports in its place.
    let mut seen = None;
    for _ in 0..20 {
        world.pass(WATCH_SILENT_MS_MIN / 10).await;
        seen = seen.or(proved(&read(&world, reader, &ask).await));
    }
    assert_eq!(seen, Some(FIRST + 1));
    // It goes on with what it knew: that is no later than what the other one has found.
    world.nodes[watcher].process.set(Power::On);
    world.pass(1).await;
    assert_ne!(proved(&read(&world, watcher, &ask).await), Some(FIRST));
}

/// A node that has lost the store serves by age, and writes do not wait for it longer than its lease.
#[tokio::test(start_paused = true)]
async fn a_node_out_of_touch_proves_nothing() {
    let (world, [left, _]) = warm_world(465, WATCH_MS).await;
    let owner = world.owner_of(&left);
    world.store.set_cut(owner, true);
    world.pass(FRESHNESS_LEASE_MS_DEFAULT + 1).await;
    // It waits for a look first, and then the store is away.
    world.pass(WRITTEN_POLL_MS_MAX).await;
    assert_eq!(proved(&read(&world, owner, &left).await), None);
    let strict = Ask { freshness: Freshness { proved_only: true, ..Freshness::default() }, ..left.clone() };
    let runs = world.origin.runs();
    assert!(matches!(read(&world, owner, &strict).await.answer, Answer::Body(_)));
    assert_eq!(world.origin.runs(), runs + 1, "only proved answers: a run");
    world.store.set_cut(owner, false);
    // What was read without the store lives briefly. The next run still is: it finds the store back only on its way.
    world.pass(LONG_MS).await;
    read(&world, owner, &left).await;
    world.pass(BOUND_MS).await;
    let again = read(&world, owner, &left).await;
    assert!(again.how.is_proved && version(&again) == FIRST, "{again:?}");
}

/// The database is restored. No entry of before it is proved when the bound is over, whoever watches.
#[tokio::test(start_paused = true)]
async fn a_restore_ends_all_proofs() {
    let (world, asks) = warm_world(466, WATCH_MS).await;
    world.origin.restore(FIRST - 40);
    world.pass(BOUND_MS).await;
    for node in 0..NODES {
        for ask in &asks {
            assert_eq!(version(&read(&world, node, ask).await), FIRST - 40);
        }
    }
    world.pass(LONG_MS).await;
    for node in 0..NODES {
        for ask in &asks {
            assert_eq!(proved(&read(&world, node, ask).await), Some(FIRST - 40));
        }
    }
}

/// A write has ended an entry, and then the database is restored. A node that no other node can tell of the restore hears of it by
/// its looks at the store: of the new epoch by one, and of the purge by another one, which may be later. The entry's id is
/// later than the new mark, and the entry stays ended.
#[tokio::test(start_paused = true)]
async fn a_restore_brings_nothing_back_that_a_write_has_ended() {
    for seed in 480..490 {
        let (world, [left, _]) = warm_world(seed, WATCH_MS).await;
        let watcher = watcher(&world).await;
        let behind = (watcher + 1) % NODES;
        assert_eq!(proved(&read(&world, behind, &left).await), Some(FIRST));
        assert!(matches!(write(&world, watcher, WRITE_LEFT).await.answer, Answer::Body(_)));
        for other in (0..NODES).filter(|other| *other != behind) {
            world.net.set_way_cut(other, behind, true);
            world.net.set_way_cut(behind, other, true);
        }
        world.pass(37 * (seed - 480)).await;
        world.origin.restore(FIRST - 40);
        for _ in 0..2 * BOUND_MS {
            let hit = world.nodes[behind].engine.path().hit(&left);
            assert!(hit.is_none(), "seed {seed}: {hit:?}");
            world.pass(1).await;
        }
    }
}

/// The database is restored, and clients past all nodes bring ids to the same number again before a node asks, or further. What was
/// read before has the database's UUID and a good id: only the server's run tells that it is of files that are gone.
#[tokio::test(start_paused = true)]
async fn a_restore_that_ids_have_caught_up_with_ends_all_proofs() {
    for (seed, more) in [(472, 0), (473, 1), (474, 7)] {
        let (world, asks) = warm_world(seed, WATCH_MS).await;
        world.origin.restore(FIRST - 40);
        (0..40 + more).for_each(|_| world.origin.write_past());
        world.pass(BOUND_MS).await;
        for node in 0..NODES {
            for ask in &asks {
                assert_eq!(proved(&read(&world, node, ask).await), None, "{more} more");
            }
        }
        // By age it ends; what is read then is proved again, on all nodes.
        world.pass(LONG_MS).await;
        for ask in &asks {
            read(&world, 0, ask).await;
        }
        world.pass(LONG_MS).await;
        let runs = world.origin.runs();
        for node in 0..NODES {
            for ask in &asks {
                assert_eq!(proved(&read(&world, node, ask).await), Some(FIRST + more));
            }
        }
        assert_eq!(world.origin.runs(), runs);
    }
}

/// Neo4j is killed and recovers: nobody can tell that from a restore. Entries are hits by age, for a whole TTL from when they were
/// last proved, without a run; what is read anew is proved.
#[tokio::test(start_paused = true)]
async fn entries_outlive_a_restart_by_age() {
    let (world, [left, right]) = warm_world(475, WATCH_MS).await;
    world.pass(LONG_MS).await;
    for node in 0..NODES {
        assert_eq!(proved(&read(&world, node, &left).await), Some(FIRST));
    }
    let runs = world.origin.runs();
    world.origin.start_anew();
    world.pass(BOUND_MS).await;
    for node in 0..NODES {
        let outcome = read(&world, node, &left).await;
        assert!(is_hit(&outcome) && !outcome.how.is_proved && outcome.how.detail.is_none(), "{outcome:?}");
    }
    assert_eq!(world.origin.runs(), runs);
    world.pass(LONG_MS).await;
    for ask in [&left, &right] {
        read(&world, 0, ask).await;
    }
    assert_eq!(world.origin.runs(), runs + 2);
    world.pass(LONG_MS).await;
    for node in 0..NODES {
        for ask in [&left, &right] {
            assert_eq!(proved(&read(&world, node, ask).await), Some(FIRST));
        }
    }
    assert_eq!(world.origin.runs(), runs + 2);
}

/// A restore just after a write whose answer was lost: the mark in doubt is later than every id, and hides no step back.
#[tokio::test(start_paused = true)]
async fn a_restore_beside_a_write_in_doubt_is_noticed() {
    let (world, [left, right]) = warm_world(467, WATCH_MS).await;
    let away = OriginBehavior::Fault(hopcache_engine::ports::OriginFault::Cut("seeded".to_owned()));
    world.origin.set_behavior(away);
    // Nobody knows whether it is committed, and nobody can ask.
    assert!(matches!(write(&world, 0, WRITE_LEFT).await.answer, Answer::Failed(_)));
    world.origin.restore(FIRST - 40);
    world.origin.set_behavior(OriginBehavior::Well);
    world.pass(BOUND_MS + LONG_MS).await;
    for node in 0..NODES {
        for ask in [&left, &right] {
            assert_eq!(version(&read(&world, node, ask).await), FIRST - 40);
        }
    }
}

/// A write that failed for its client, and was committed: its effects count, and its id is nobody's.
#[tokio::test(start_paused = true)]
async fn a_failed_write_that_was_committed_ends_proofs() {
    let (world, [left, right]) = warm_world(468, WATCH_MS).await;
    world.origin.set_write_fate(WriteFate::LostAfter);
    assert!(matches!(write(&world, 1, WRITE_LEFT).await.answer, Answer::Failed(_)));
    let now = i64::from(world.origin.version());
    for node in 0..NODES {
        assert_eq!(version(&read(&world, node, &left).await), now);
    }
    world.pass(BOUND_MS).await;
    assert_eq!(proved(&read(&world, 0, &right).await), None, "its ids cannot be counted");
}

/// A change of users or rights ends what was read before.
#[tokio::test(start_paused = true)]
async fn a_change_of_rights_ends_proofs() {
    let (world, [left, _]) = warm_world(469, WATCH_MS).await;
    world.origin.change_rights();
    world.pass(BOUND_MS).await;
    assert_eq!(proved(&read(&world, 0, &left).await), None);
}

/// Nobody writes past the cluster, and nobody looks for that: entries are proved by own writes alone.
#[tokio::test(start_paused = true)]
async fn without_foreign_writes_nobody_watches() {
    let (world, [left, right]) = warm_world(471, 0).await;
    world.pass(LONG_MS).await;
    write(&world, 2, WRITE_LEFT).await;
    let now = i64::from(world.origin.version());
    for node in 0..NODES {
        assert_eq!(version(&read(&world, node, &left).await), now);
        assert_eq!(proved(&read(&world, node, &right).await), Some(FIRST));
    }
    let is_watched = |event: &Event| matches!(event, Event::Watched(_));
    assert!(world.nodes.iter().all(|node| Arc::clone(&node.events).count(is_watched) == 0));
}
