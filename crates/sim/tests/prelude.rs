//! What most scenes need: types of the engine and of the simulated world, the usual read, and looks at outcomes.

pub(crate) use hopcache_core::lease::Commit;
pub(crate) use hopcache_core::limits::{
    COMMIT_WAIT_MS_MAX, FRESHNESS_LEASE_MS_DEFAULT, INVALIDATION_POLL_MS, REFRESH_RETRY_MS,
    STORE_COMMAND_MS_DEFAULT,
};
pub(crate) use hopcache_core::node::{Holder, Incarnation};
pub(crate) use hopcache_core::tags::Touched;
pub(crate) use hopcache_core::time::Millis;
pub(crate) use hopcache_engine::ask::{Ask, Freshness, Hints, RequestBypass};
pub(crate) use hopcache_engine::event::{Event, RefreshWord};
pub(crate) use hopcache_engine::memory::Memory;
pub(crate) use hopcache_engine::outcome::{Answer, Class, Detail, FailureKind, Kept, Outcome, Reason, Role};
pub(crate) use hopcache_engine::ports::{Neo4jFailure, OriginFault, Parts, Scope, WriteBegan, WriteOf};
pub(crate) use hopcache_engine::{Engine, Policy, ProofSettings};
pub(crate) use hopcache_sim::World;
pub(crate) use hopcache_sim::check::record::Life;
pub(crate) use hopcache_sim::world::clock::sim_now;
pub(crate) use hopcache_sim::world::members::SimRouting;
pub(crate) use hopcache_sim::world::names::node_name;
pub(crate) use hopcache_sim::world::net::NetWeather;
pub(crate) use hopcache_sim::world::node_handle::{NodeHandle, Start};
pub(crate) use hopcache_sim::world::origin::{OriginBehavior, WriteFate, bookmark};
pub(crate) use hopcache_sim::world::policy::default_policy;
pub(crate) use hopcache_sim::world::process::Power;
pub(crate) use hopcache_sim::world::store::Weather;
pub(crate) use hopcache_sim::world::write_statement::{WRITE, WRITE_ELSEWHERE, WRITE_LEFT};
pub(crate) use std::sync::Arc;

use tokio::task::AbortHandle;

/// The usual read.
pub(crate) const READ: &str = "MATCH (n) RETURN n.version AS version";

/// The version of the item in the answer's body; `None` without a body or a version.
pub(crate) fn version_in(outcome: &Outcome) -> Option<i64> {
    let Answer::Body(body) = &outcome.answer else { return None };
    let text = String::from_utf8_lossy(body);
    text.split("[[").nth(1)?.split(',').next()?.parse().ok()
}

/// The version, where the answer must hold one.
pub(crate) fn version(outcome: &Outcome) -> i64 {
    version_in(outcome).unwrap_or_else(|| panic!("no version in the answer: {:?}", outcome.answer))
}

/// The version as text, or the failure: for assertions that compare whole lists of outcomes.
pub(crate) fn version_or_failure(outcome: &Outcome) -> String {
    match &outcome.answer {
        Answer::Body(_) => version_in(outcome).map(|version| version.to_string()).unwrap_or_default(),
        Answer::Failed(failure) => format!("{failure:?}"),
    }
}

/// What the request met, if it failed.
pub(crate) fn failure_in(outcome: &Outcome) -> Option<FailureKind> {
    match &outcome.answer {
        Answer::Failed(failure) => Some(failure.kind.clone()),
        Answer::Body(_) => None,
    }
}

/// What the request met, where it must have failed.
pub(crate) fn failure(outcome: &Outcome) -> FailureKind {
    failure_in(outcome).unwrap_or_else(|| panic!("an answer: {:?}", outcome.how))
}

pub(crate) fn is_answered(outcome: &Outcome) -> bool {
    matches!(outcome.answer, Answer::Body(_))
}

pub(crate) fn is_hit(outcome: &Outcome) -> bool {
    outcome.how.class == Class::Hit
}

/// A failure with this code of Neo4j.
pub(crate) fn said(code: &str) -> Neo4jFailure {
    Neo4jFailure { code: code.to_owned(), message: "seeded".to_owned(), as_sent: Vec::new() }
}

/// No connection to Neo4j.
pub(crate) fn away() -> OriginFault {
    OriginFault::Unreachable("refused".to_owned())
}

/// Stale answers for want of Neo4j, of all nodes.
pub(crate) fn stale_served(world: &World) -> usize {
    world.nodes.iter().map(|node| node.events.count(|event| matches!(event, Event::StaleServed))).sum()
}

/// A request of a client of this node.
pub(crate) async fn read(world: &World, node: usize, ask: &Ask) -> Outcome {
    world.send(node, ask).await.unwrap()
}

/// Lets time pass until no commit waits at any node.
pub(crate) async fn committed(world: &World) {
    let waits = || world.nodes.iter().any(|node| node.engine.fetch().commits_queued() > 0);
    for _ in 0..COMMIT_WAIT_MS_MAX + 2 * STORE_COMMAND_MS_DEFAULT {
        if !waits() {
            return;
        }
        world.pass(1).await;
    }
    assert!(!waits(), "a commit waits for longer than any may");
}

/// As a node's front does: memory first, then the whole path.
pub(crate) async fn front(engine: &Engine, ask: &Ask) -> Outcome {
    match engine.path().hit(ask) {
        Some(outcome) => outcome,
        None => engine.path().answer(ask).await,
    }
}

/// The node reads the store's log from now on.
pub(crate) fn follow(node: &NodeHandle) -> AbortHandle {
    let engine = Arc::clone(&node.engine);
    tokio::spawn(async move { engine.path().follow_invalidations().await }).abort_handle()
}

/// The rings disagree: each node takes itself for the owner of every key.
pub(crate) fn each_owns_all(world: &World) {
    for node in &world.nodes {
        node.routing.set(std::slice::from_ref(&node.engine.me().node));
    }
}
