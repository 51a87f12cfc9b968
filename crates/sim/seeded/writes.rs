//! Bugs of writes that seeds hardly show, each with its schedule.

use std::sync::Arc;

use hopcache_core::bookmark::DatabaseUuid;
use hopcache_core::limits::FRESHNESS_LEASE_MS_DEFAULT;
use hopcache_core::node::{Holder, Incarnation};
use hopcache_core::seeded::Bug;
use hopcache_core::time::Millis;
use hopcache_engine::ask::Ask;
use hopcache_engine::outcome::Answer;
use hopcache_engine::{Policy, ProofSettings};
use hopcache_sim::World;
use hopcache_sim::check::record::Life;
use hopcache_sim::world::members::SimRouting;
use hopcache_sim::world::names::node_name;
use hopcache_sim::world::net::NetWeather;
use hopcache_sim::world::node_handle::Start;
use hopcache_sim::world::origin::{ScriptedOrigin, WriteFate, bookmark};
use hopcache_sim::world::policy::default_policy;
use hopcache_sim::world::process::Power;
use hopcache_sim::world::write_statement::{WRITE, WRITE_IN_PARTS, WRITE_LEFT};

use super::{hits, run_with};

const READ: &str = "MATCH (n) RETURN n.version AS version";

/// Watchers that ask often, and proofs that last.
const PROOFS: ProofSettings = ProofSettings {
    watch_ms: Millis(100),
    life_ms_max: Millis(600_000),
    is_captured: false,
    is_marked: false,
};

/// Two nodes that follow the store, and an origin that tells transactions.
async fn world(seed: u64) -> World {
    world_with(seed, default_policy()).await
}

async fn world_with(seed: u64, policy: Policy) -> World {
    let lease_ms = Some(Millis(FRESHNESS_LEASE_MS_DEFAULT));
    let world = World::with_policy(2, seed, &Policy { freshness_lease_ms: lease_ms, ..policy });
    world.origin.tell_transactions(0);
    for node in &world.nodes {
        let engine = Arc::clone(&node.engine);
        tokio::spawn(async move { engine.path().follow_invalidations().await });
    }
    world.pass(10).await;
    world
}

/// What a node answers from memory that was stopped during a write and whose first looks fail.
async fn hits_after_a_write_unheard() -> usize {
    let world = world(81).await;
    let ask = world.ask(READ);
    let owner = world.owner_of(&ask);
    world.send(owner, &ask).await.unwrap();
    assert!(world.nodes[owner].engine.path().hit(&ask).is_some());
    world.nodes[owner].process.set(Power::Paused);
    world.net.set_way_cut(1 - owner, owner, true);
    let written = world.send(1 - owner, &world.ask(WRITE)).await.unwrap();
    assert!(matches!(written.answer, Answer::Body(_)));
    world.pass(FRESHNESS_LEASE_MS_DEFAULT).await;
    world.store.set_cut(owner, true);
    world.nodes[owner].process.set(Power::On);
    hits(&world, owner, &ask, (40, 10)).await
}

/// A node whose lease of freshness has run out looks before it serves.
#[test]
fn a_lease_that_is_not_looked_at_is_seen() {
    let well = run_with(None, hits_after_a_write_unheard());
    let ill = run_with(Some(Bug::LeaseNotLookedAt), hits_after_a_write_unheard());
    println!(
        "LeaseNotLookedAt: {ill} of 40 questions are answered from before a write, and {well} without it"
    );
    assert!(well == 0 && ill > 0, "{well}, {ill}");
}

/// After how many of ten writes their node's neighbour still has a hit from before, while something between them resets what the
/// writing node sends.
async fn hits_behind_a_firewall() -> usize {
    let world = world(82).await;
    let ask = world.ask(READ);
    let owner = world.owner_of(&ask);
    world.net.set_way_reset(1 - owner, owner, true);
    let mut hits = 0;
    for round in 0..10 {
        world.send(owner, &ask).await.unwrap();
        let written = world.send(1 - owner, &world.ask(WRITE)).await.unwrap();
        assert!(matches!(written.answer, Answer::Body(_)));
        hits += usize::from(world.nodes[owner].engine.path().hit(&ask).is_some());
        world.pass(37 * round).await;
    }
    hits
}

/// A node that refuses connections may live: its lease of freshness decides.
#[test]
fn a_reset_that_counts_as_told_is_seen() {
    let well = run_with(None, hits_behind_a_firewall());
    let ill = run_with(Some(Bug::GoneCountsAsTold), hits_behind_a_firewall());
    println!("GoneCountsAsTold: {ill} of 10 writes leave a hit from before them, and {well} without it");
    assert!(well == 0 && ill > 0, "{well}, {ill}");
}

/// After how many of ten writes a node has a hit from before. Each is committed, and its answer is lost.
async fn hits_after_writes_in_doubt() -> usize {
    let world = world_with(83, Policy { proofs: Some(PROOFS), ..default_policy() }).await;
    world.origin.count_exactly();
    world.origin.set_version(100);
    let ask = world.ask(READ);
    let owner = world.owner_of(&ask);
    let mut hits = 0;
    for round in 0..10 {
        // It is proved again, and the doubt of the write before is over.
        world.pass(120_000).await;
        world.send(owner, &ask).await.unwrap();
        world.pass(200 + 37 * round).await;
        assert!(world.nodes[owner].engine.path().hit(&ask).is_some());
        world.origin.set_write_fate(WriteFate::LostAfter);
        let written = world.send(1 - owner, &world.ask(WRITE)).await.unwrap();
        assert!(matches!(written.answer, Answer::Failed(_)));
        world.origin.set_write_fate(WriteFate::Well);
        hits += usize::from(world.nodes[owner].engine.path().hit(&ask).is_some());
    }
    hits
}

/// What a failed write was to change may be changed.
#[test]
fn a_failed_write_that_is_forgotten_is_seen() {
    let well = run_with(None, hits_after_writes_in_doubt());
    let ill = run_with(Some(Bug::FailedWriteForgotten), hits_after_writes_in_doubt());
    println!(
        "FailedWriteForgotten: {ill} of 10 lost writes leave a hit from before them, and {well} without it"
    );
    assert!(well == 0 && ill > 0, "{well}, {ill}");
}

/// How often an owner has a hit that a write has ended, after the database was restored. The owner cannot be told of the restore,
/// and hears at the store of the new epoch and of the purge.
async fn hits_after_a_restore() -> usize {
    let mut ended_hits = 0;
    for round in 0..10 {
        let world = world_with(90 + round, Policy { proofs: Some(PROOFS), ..default_policy() }).await;
        world.origin.count_exactly();
        world.origin.set_version(100);
        // Either node is the owner of some: the one that watches notices the restore itself.
        let ask = world.ask_as(READ, &format!("user {round}"));
        let owner = world.owner_of(&ask);
        world.send(1 - owner, &ask).await.unwrap();
        let written = world.send(1 - owner, &world.ask(WRITE)).await.unwrap();
        assert!(matches!(written.answer, Answer::Body(_)));
        world.net.set_way_cut(0, 1, true);
        world.net.set_way_cut(1, 0, true);
        world.pass(37 * round).await;
        world.origin.restore(60);
        ended_hits += hits(&world, owner, &ask, (2_000, 1)).await;
    }
    ended_hits
}

/// Ids of an earlier epoch may be later than the new mark.
#[test]
fn an_earlier_epoch_that_is_believed_is_seen() {
    let well = run_with(None, hits_after_a_restore());
    let ill = run_with(Some(Bug::EarlierEpochBelieved), hits_after_a_restore());
    println!(
        "EarlierEpochBelieved: {ill} of 20,000 questions have a hit that a write has ended, and {well} without it"
    );
    assert!(well == 0 && ill > 0, "{well}, {ill}");
}

/// What the reads of [`hits_past_a_foreign_write`] ask: no write through a node touches it.
const RIGHT: &str = "MATCH (n:Right) RETURN n.version AS version";

/// How many of ten reads are answered without a run, although their bookmark names a foreign transaction that may have touched what
/// they ask: it came just before a write through a node, whose bookmark they have.
async fn hits_past_a_foreign_write() -> usize {
    let world = world_with(96, Policy { proofs: Some(PROOFS), ..default_policy() }).await;
    world.origin.count_exactly();
    world.origin.set_version(100);
    let right = || Ask { bookmarks: bookmark(world.origin.version().into()), ..world.ask(RIGHT) };
    let mut hits = 0;
    for round in 0..10 {
        // Each node has used the label, its entries are of after the last foreign transaction, and a report says so.
        for node in 0..2 {
            world.send(node, &world.ask(WRITE_LEFT)).await.unwrap();
        }
        for _ in 0..3 {
            for node in 0..2 {
                world.send(node, &right()).await.unwrap();
            }
            world.pass(2_000).await;
        }
        world.origin.write_past();
        world.send(round % 2, &world.ask(WRITE_LEFT)).await.unwrap();
        let runs = world.origin.runs();
        assert!(matches!(world.send(0, &right()).await.unwrap().answer, Answer::Body(_)));
        hits += usize::from(world.origin.runs() == runs);
    }
    hits
}

/// A bookmark is answered by a proof only as far as each transaction is known.
#[test]
fn a_bookmark_that_reaches_past_a_foreign_write_is_seen() {
    let well = run_with(None, hits_past_a_foreign_write());
    let ill = run_with(Some(Bug::BookmarkReachesForeign), hits_past_a_foreign_write());
    println!(
        "BookmarkReachesForeign: {ill} of 10 reads miss a foreign write that their bookmark names, and {well} without it"
    );
    assert!(well == 0 && ill > 0, "{well}, {ill}");
}

/// In how many worlds the owner answers from before a write that was answered. Messages are slow, so that a second write
/// ends while the first one's telling is on its way back:
///   the owner hears of the first write and reads · the second write ends · the first telling is answered.
fn stale_after_two_writes(bug: Option<Bug>) -> usize {
    (0..WORLDS).map(|seed| usize::from(run_with(bug, is_stale_after_two_writes(seed)))).sum()
}

const WORLDS: u64 = 20;

async fn is_stale_after_two_writes(seed: u64) -> bool {
    let world = world(seed).await;
    world.origin.set_delay_ms(20);
    let (ask, write) = (world.ask(READ), world.ask(WRITE));
    let owner = world.owner_of(&ask);
    world.send(owner, &ask).await.unwrap();
    world.net.set_weather(NetWeather { delay_ms_max: 100, ..NetWeather::default() });
    let first = world.send(1 - owner, &write);
    while world.nodes[owner].engine.writes().known().is_empty() {
        world.pass(1).await;
    }
    let reading = world.send(owner, &ask);
    let second = world.send(1 - owner, &write);
    for ended in [reading, first, second] {
        assert!(matches!(ended.await.unwrap().answer, Answer::Body(_)));
    }
    assert_eq!(world.origin.version(), 3);
    match world.send(owner, &ask).await.unwrap().answer {
        Answer::Body(body) => !String::from_utf8_lossy(&body).contains("[[3,"),
        Answer::Failed(_) => false,
    }
}

/// The next telling brings what ended during the last one.
#[test]
fn a_telling_that_is_dropped_is_seen() {
    let (well, ill) = (stale_after_two_writes(None), stale_after_two_writes(Some(Bug::TellingDropped)));
    println!("TellingDropped: {ill} of {WORLDS} worlds answer from before a write, and {well} without it");
    assert!(well == 0 && ill > 0, "{well}, {ill}");
}

/// How many of ten entries end because Neo4j has rolled back a write of theirs. What such a write leaves is a label, by a transaction
/// that is newer than the entry.
async fn entries_that_a_refusal_ends() -> usize {
    let world = world(100).await;
    let ask = world.ask(READ);
    let owner = world.owner_of(&ask);
    world.origin.set_write_fate(WriteFate::LeavesLabel("Neo.ClientError.Statement.ArithmeticError"));
    let mut ended = 0;
    for _ in 0..10 {
        world.send(owner, &ask).await.unwrap();
        let refused = world.send(1 - owner, &world.ask(WRITE)).await.unwrap();
        assert!(matches!(refused.answer, Answer::Failed(_)));
        ended += usize::from(world.nodes[owner].engine.path().hit(&ask).is_none());
    }
    ended
}

/// What was rolled back ends nothing of the graph.
#[test]
fn a_purge_by_a_refused_statement_is_seen() {
    let well = run_with(None, entries_that_a_refusal_ends());
    let ill = run_with(Some(Bug::PurgeByRefused), entries_that_a_refusal_ends());
    println!("PurgeByRefused: {ill} of 10 refused writes end an entry, and {well} without it");
    assert!(well == 0 && ill > 0, "{well}, {ill}");
}

/// How many of the answers during a statement in batches are older than half a second and some milliseconds for messages.
async fn answers_from_before_a_batch() -> usize {
    const BOUND: usize = 54;
    let world = world(101).await;
    let ask = world.ask(READ);
    let owner = world.owner_of(&ask);
    world.send(owner, &ask).await.unwrap();
    world.origin.set_delay_ms(20);
    world.origin.set_write_fate(WriteFate::Batches(20, 250));
    let writer = world.send(1 - owner, &world.ask(WRITE_IN_PARTS));
    let (mut versions, mut late) = (Vec::new(), 0);
    while !writer.is_finished() {
        versions.push(world.origin.version());
        let due = versions[versions.len().saturating_sub(BOUND)];
        match world.send(owner, &ask).await.unwrap().answer {
            Answer::Body(body) => {
                let body = String::from_utf8_lossy(&body).into_owned();
                late += usize::from((1..due).any(|version| body.contains(&format!("[[{version},"))));
            }
            Answer::Failed(failure) => panic!("{failure:?}"),
        }
        world.pass(10).await;
    }
    assert!(matches!(writer.await.unwrap().answer, Answer::Body(_)));
    late
}

/// What is committed is told when it is visible.
#[test]
fn a_batch_that_is_told_late_is_seen() {
    let well = run_with(None, answers_from_before_a_batch());
    let ill = run_with(Some(Bug::BatchToldLate), answers_from_before_a_batch());
    println!(
        "BatchToldLate: {ill} answers are from before a batch that is long visible, and {well} without it"
    );
    assert!(well == 0 && ill > 0, "{well}, {ill}");
}

/// Starts a node that is alone on its ring, before the world's origin of now.
async fn start_alone(world: &mut World, address: &str) {
    let node = world.nodes.len();
    let Some(name) = node_name(node) else { return };
    let start = Start {
        life: Life { node, life: 0 },
        me: Holder { node: name.clone(), incarnation: Incarnation(1 + node as u64) },
        routing: SimRouting::new(&[name]),
        apart: Millis::ZERO,
    };
    let policy = Policy { origin: address.to_owned(), ..default_policy() };
    let handle = world.start(start, &policy);
    world.nodes.push(handle);
    world.pass(10).await;
}

/// How many of ten questions a node before another Neo4j answers without asking it: its configuration, with the store, was copied.
async fn answers_of_another_server() -> usize {
    let mut world = World::empty(97);
    world.origin.tell_transactions(0);
    start_alone(&mut world, "bolt://one:7687").await;
    let asks: Vec<Ask> = (0..10).map(|n| world.ask(&format!("MATCH (n{n}) RETURN n{n}.version"))).collect();
    for ask in &asks {
        world.send(0, ask).await.unwrap();
    }
    let other = ScriptedOrigin::new(Arc::clone(&world.record), 7);
    other.tell_transactions(0);
    other.replace(DatabaseUuid([0xEE; 16]), 1_000);
    world.origin = Arc::new(other);
    start_alone(&mut world, "bolt://other:7687").await;
    for ask in &asks {
        world.send(1, ask).await.unwrap();
    }
    asks.len() - world.origin.runs()
}

/// A node takes nothing of another database, whatever the store has.
#[test]
fn an_entry_of_another_database_is_seen() {
    let well = run_with(None, answers_of_another_server());
    let ill = run_with(Some(Bug::AnothersEntryServed), answers_of_another_server());
    println!("AnothersEntryServed: {ill} of 10 answers are of another Neo4j, and {well} without it");
    assert!(well == 0 && ill > 0, "{well}, {ill}");
}
