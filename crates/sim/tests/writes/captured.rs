//! Change data capture: a write past all nodes ends what it touches, and keeps all other proofs. Where capture does not tell all, it ends
//! all proofs.

use super::proofs::{BOUND_MS, FIRST, LONG_MS, WATCH_MS, policy, proved, warm_world_with};
use super::{NODES, world_of};
use crate::prelude::*;

fn captured() -> Policy {
    let usual = policy(WATCH_MS);
    let proofs = usual.proofs.map(|proofs| ProofSettings { is_captured: true, ..proofs });
    Policy { proofs, ..usual }
}

async fn world(seed: u64) -> (World, [Ask; 2]) {
    warm_world_with(seed, &captured(), |world| world.origin.capture_changes()).await
}

/// What each node answers, if it is proved.
async fn all(world: &World, ask: &Ask) -> Vec<Option<i64>> {
    let mut answers = Vec::new();
    for node in 0..NODES {
        answers.push(proved(&read(world, node, ask).await));
    }
    answers
}

#[tokio::test(start_paused = true)]
async fn a_foreign_write_ends_what_it_touches_and_nothing_else() {
    let (world, [left, right]) = world(491).await;
    for write in 1..=3 {
        world.origin.write_past_with(WRITE_LEFT);
        world.origin.write_past_with(WRITE_ELSEWHERE);
        world.pass(BOUND_MS).await;
        let runs = world.origin.runs();
        assert_eq!(all(&world, &right).await, [Some(FIRST); NODES]);
        assert_eq!(world.origin.runs(), runs);
        for node in 0..NODES {
            assert_eq!(version(&read(&world, node, &left).await), FIRST + 2 * write);
        }
        assert_eq!(world.origin.runs(), runs + 1);
        world.pass(LONG_MS).await;
        assert_eq!(all(&world, &left).await, [Some(FIRST + 2 * write); NODES]);
        assert_eq!(all(&world, &right).await, [Some(FIRST); NODES]);
        assert_eq!(world.origin.runs(), runs + 1);
    }
}

/// Where rights depend on labels, a write may change more than it touches (`freshness.triggers`): what is captured of it too.
#[tokio::test(start_paused = true)]
async fn a_captured_write_may_change_more_than_it_touches() {
    let policy = Policy { has_triggers: true, ..captured() };
    let (world, [left, right]) = warm_world_with(495, &policy, |world| world.origin.capture_changes()).await;
    world.origin.write_past_with(WRITE_LEFT);
    world.pass(BOUND_MS).await;
    for ask in [&left, &right] {
        assert_eq!(version(&read(&world, 0, ask).await), FIRST + 1);
    }
}

/// An id without a row: the schema, or a new label.
#[tokio::test(start_paused = true)]
async fn a_gap_ends_all_proofs() {
    let (world, [left, right]) = world(493).await;
    world.origin.write_past();
    world.origin.write_past_with(WRITE_ELSEWHERE);
    world.pass(BOUND_MS).await;
    for ask in [&left, &right] {
        assert_eq!(all(&world, ask).await, [None; NODES]);
    }
}

/// The log was rotated: the change to go on from is gone. From the next one on it tells again.
#[tokio::test(start_paused = true)]
async fn a_change_that_is_too_old_ends_all_proofs_once() {
    let (world, [left, right]) = world(494).await;
    world.origin.write_past_with(WRITE_LEFT);
    world.origin.forget_changes();
    world.pass(BOUND_MS).await;
    assert_eq!(all(&world, &right).await, [None; NODES]);
    world.pass(LONG_MS).await;
    for ask in [&left, &right] {
        read(&world, 0, ask).await;
    }
    world.pass(LONG_MS).await;
    world.origin.write_past_with(WRITE_LEFT);
    world.pass(BOUND_MS).await;
    assert_eq!(all(&world, &right).await, [Some(FIRST + 1); NODES]);
}

/// A server without capture is asked when an account begins, when something is foreign, and once in ten seconds: not with every look.
#[tokio::test(start_paused = true)]
async fn a_server_without_capture_is_left_alone() {
    let (world, [left, _]) = warm_world_with(495, &captured(), |_| {}).await;
    let asked = world.origin.changes_asked();
    world.pass(LONG_MS).await;
    assert!(world.origin.changes_asked() <= asked + 1);
    assert_eq!(all(&world, &left).await, [Some(FIRST); NODES]);
    world.origin.write_past_with(WRITE_ELSEWHERE);
    world.pass(BOUND_MS).await;
    assert_eq!(all(&world, &left).await, [None; NODES]);
    assert!(world.origin.changes_asked() <= asked + 2 * NODES);
}

/// A server that did not say where its changes are, as one that was busy, is read when it says it.
#[tokio::test(start_paused = true)]
async fn a_server_that_captures_later_is_read_before_anything_is_foreign() {
    let (world, [left, _]) = warm_world_with(497, &captured(), |_| {}).await;
    world.origin.capture_changes();
    world.pass(LONG_MS + BOUND_MS).await;
    world.origin.write_past_with(WRITE_ELSEWHERE);
    world.pass(BOUND_MS).await;
    assert_eq!(all(&world, &left).await, [Some(FIRST); NODES]);
}

/// One that is found to capture when something is foreign is read from then on.
#[tokio::test(start_paused = true)]
async fn a_server_that_captures_when_something_is_foreign_is_read_from_then_on() {
    let (world, [left, _]) = warm_world_with(498, &captured(), |_| {}).await;
    // It has just not said where its changes are.
    let asked = world.origin.changes_asked();
    while world.origin.changes_asked() == asked {
        world.pass(WATCH_MS).await;
    }
    world.origin.capture_changes();
    world.origin.write_past_with(WRITE_ELSEWHERE);
    world.pass(BOUND_MS).await;
    assert_eq!(all(&world, &left).await, [None; NODES]);
    // It is read anew, and proved again, sooner than a server without capture is asked again.
    let left = world.ask(super::proofs::LEFT);
    world.pass(LONG_MS / 2).await;
    all(&world, &left).await;
    world.pass(WATCH_MS).await;
    assert_eq!(all(&world, &left).await, [Some(FIRST + 1); NODES]);
    world.origin.write_past_with(WRITE_ELSEWHERE);
    world.pass(BOUND_MS).await;
    assert_eq!(all(&world, &left).await, [Some(FIRST + 1); NODES]);
}

/// It is asked only if that is configured.
#[tokio::test(start_paused = true)]
async fn capture_is_not_read_unless_configured() {
    let world = world_of(NODES, 496, &policy(WATCH_MS)).await;
    world.origin.capture_changes();
    world.origin.count_exactly();
    let ask = world.ask(super::proofs::LEFT);
    read(&world, 0, &ask).await;
    world.pass(LONG_MS).await;
    assert_eq!(world.origin.changes_asked(), 0);
}
