//! Bugs of writes that seeds hardly show, each with its schedule.

use std::sync::Arc;

use hopcache_core::limits::FRESHNESS_LEASE_MS_DEFAULT;
use hopcache_core::seeded::{Bug, choose};
use hopcache_core::time::Millis;
use hopcache_engine::Policy;
use hopcache_engine::outcome::Answer;
use hopcache_sim::World;
use hopcache_sim::origin::WRITE;
use hopcache_sim::policy::default_policy;
use hopcache_sim::process::Power;

const READ: &str = "MATCH (n) RETURN n.version AS version";

/// Two nodes that follow the store, and an origin that tells transactions.
async fn world(lag: i64) -> World {
    let lease_ms = Some(Millis(FRESHNESS_LEASE_MS_DEFAULT));
    let world = World::with_policy(2, 81, &Policy { freshness_lease_ms: lease_ms, ..default_policy() });
    world.origin.tell_transactions(lag);
    for node in &world.nodes {
        let engine = Arc::clone(&node.engine);
        tokio::spawn(async move { engine.path().follow_invalidations().await });
    }
    world.pass(10).await;
    world
}

fn run_with<T>(bug: Option<Bug>, schedule: impl Future<Output = T>) -> T {
    choose(bug);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let seen = runtime.unwrap().block_on(schedule);
    choose(None);
    seen
}

/// What a node answers from memory that was stopped during a write and whose first looks fail.
async fn hits_after_a_write_unheard() -> usize {
    let world = world(0).await;
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
    let mut hits = 0;
    for _ in 0..40 {
        hits += usize::from(world.nodes[owner].engine.path().hit(&ask).is_some());
        world.pass(10).await;
    }
    hits
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

/// What the owner reads after two writes whose tellings meet: the second ends while the first is on its way.
async fn read_after_two_writes() -> String {
    let world = world(1).await;
    let ask = world.ask(READ);
    let owner = world.owner_of(&ask);
    let write = world.ask(WRITE);
    let first = world.send(1 - owner, &write);
    world.pass(1).await;
    let second = world.send(1 - owner, &write);
    for written in [first, second] {
        assert!(matches!(written.await.unwrap().answer, Answer::Body(_)));
    }
    match world.send(owner, &ask).await.unwrap().answer {
        Answer::Body(body) => String::from_utf8_lossy(&body).into_owned(),
        Answer::Failed(failure) => format!("{failure:?}"),
    }
}

/// The next telling brings what ended during the last one.
#[test]
fn a_telling_that_is_dropped_is_seen() {
    let well = run_with(None, read_after_two_writes());
    let ill = run_with(Some(Bug::TellingDropped), read_after_two_writes());
    println!("TellingDropped: answered {ill}, and {well} without it");
    assert!(well.contains("[[3,") && ill.contains("[[2,"), "{well}, {ill}");
}
