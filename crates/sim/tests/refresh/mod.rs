//! Refreshes on a simulated cluster: early and stale ones, workers and queue, retries, and their ends under faults
//! (DESIGN "Early refresh"; I1, I3, I9; F1, F2, F7, F25, F27). Time is virtual, so moments are exact.

mod early;
mod faults;
mod late;
mod workers;

use hopcache_core::refresh::{Mode, Rule};
use hopcache_engine::RefreshPolicy;

use crate::prelude::*;

/// The time of a run in a world without changes.
const RUN_MS: u64 = 100;
const TTL_MS: u64 = 60_000;

/// Early refresh on, as by default but for the mode: β = 2 exactly.
fn early() -> Policy {
    let rule = Rule { mode: Mode::Plain, beta: 2.0 };
    let refresh = RefreshPolicy { is_early: true, rule, ..default_policy().refresh };
    Policy { refresh, ..default_policy() }
}

fn with(change: impl FnOnce(&mut RefreshPolicy)) -> Policy {
    let mut policy = default_policy();
    change(&mut policy.refresh);
    policy
}

async fn ask(world: &World, node: usize, ask: &Ask) -> Outcome {
    let deadline = sim_now() + Millis(60_000);
    world.send(node, &Ask { deadline, ..ask.clone() }).await.unwrap()
}

fn count(node: &NodeHandle, word: RefreshWord) -> usize {
    node.events.count(|event| *event == Event::Refresh(word))
}

/// Triggered, completed, failed, retried, dropped.
fn words(node: &NodeHandle) -> [usize; 5] {
    use RefreshWord::{Completed, Dropped, Failed, Retried, Triggered};
    [Triggered, Completed, Failed, Retried, Dropped].map(|word| count(node, word))
}

/// triggered = completed + failed + begun, which are those that wait, run and sleep, at any moment.
fn balance(node: &NodeHandle) {
    let ([triggered, completed, failed, ..], engine) = (words(node), &node.engine);
    assert_eq!(triggered, completed + failed + engine.refresh().begun(), "{:?}", words(node));
    let places = engine.refresh().under_way() + engine.refresh().waiting() + engine.refresh().asleep();
    assert_eq!(engine.refresh().begun(), places);
}

/// Nothing is under way, and each triggered refresh has ended once, completed or failed.
fn at_rest(world: &World) {
    for node in &world.nodes {
        let [triggered, completed, failed, ..] = words(node);
        assert_eq!(triggered, completed + failed, "{:?}", words(node));
        let took = node.events.count(|event| matches!(event, Event::RefreshTook(_)));
        assert_eq!(took, completed + failed);
        balance(node);
        let engine = &node.engine;
        assert_eq!(
            (engine.refresh().under_way(), engine.refresh().waiting(), engine.refresh().asleep()),
            (0, 0, 0)
        );
        assert_eq!(
            (engine.path().sizes().refreshes, engine.fetch().leases_held(), engine.path().sizes().tasks),
            (0, 0, 0)
        );
    }
}

/// As many keys as are asked for.
fn other(number: usize) -> String {
    format!("MATCH (n:L{number}) RETURN n.version AS version")
}

/// A world of one node with these entries, stale now.
async fn stale_world(seed: u64, policy: &Policy, statements: &[String]) -> World {
    let world = World::with_policy(1, seed, policy);
    for statement in statements {
        ask(&world, 0, &world.ask(statement)).await;
    }
    world.pass(TTL_MS + 1_000).await;
    world.origin.set_version(2);
    world
}
