//! The first write of a kind that ends results by labels alone: all nodes ask first which labels no node has together.

use hopcache_core::limits::{AHEAD_MS_MAX, AHEAD_OWN_MS, AHEAD_PEER_MS, EXCLUSION_AGAIN_MS};
use hopcache_core::turns::RunClass;
use hopcache_sim::world::write_statement::{WRITE_ALL_LEFT, WRITE_BOTH, WRITE_DELETE_LEFT, WRITE_ONE};

use super::proofs::{LONG_MS, WATCH_MS, warm_world};
use super::warm;
use crate::prelude::*;

/// Some messages between nodes.
const SETTLED_MS: u64 = 20;
/// A run of the origin, and the messages of a write.
const USUAL_MS: u64 = 60;

/// A watched world in which each node has a result of one label, and nothing is known of the other one. With the read, and its version.
async fn cached(seed: u64) -> (World, Ask, i64) {
    let (world, _) = warm_world(seed, WATCH_MS).await;
    // Each node has used the names, in writes that say nothing of two labels: a later write takes no id for them.
    for node in 0..world.nodes.len() {
        for statement in [WRITE_LEFT, WRITE_ONE] {
            write_of(&world, node, statement).await;
        }
    }
    world.pass(LONG_MS).await;
    let right = world.ask("MATCH (n:Right) RETURN n AS version");
    warm(&world, &right).await;
    world.pass(LONG_MS).await;
    let version = version(&read(&world, 0, &right).await);
    (world, right, version)
}

async fn write_of(world: &World, node: usize, statement: &str) {
    let outcome = world.send(node, &world.ask(statement)).await.unwrap();
    assert!(is_answered(&outcome), "{outcome:?}");
}

/// Whether every node still has the result.
async fn is_kept(world: &World, right: &Ask, cached: i64) -> bool {
    world.pass(SETTLED_MS).await;
    let mut is_kept = true;
    for node in 0..world.nodes.len() {
        let outcome = read(world, node, right).await;
        is_kept &= is_hit(&outcome) && version(&outcome) == cached;
    }
    is_kept
}

/// Nobody has asked about the labels before the first write to the other one. It ends nothing, on no node, and costs no run. The questions
/// log on nowhere.
#[tokio::test(start_paused = true)]
async fn the_first_write_to_a_label_keeps_the_reads_of_others() {
    for (seed, statement) in [(459, WRITE_ALL_LEFT), (460, WRITE_DELETE_LEFT)] {
        let (world, right, cached) = cached(seed).await;
        let runs = world.origin.runs();
        assert_eq!(world.origin.both_asked(), []);
        write_of(&world, 1, statement).await;
        assert!(is_kept(&world, &right, cached).await, "{statement}");
        assert_eq!(world.origin.runs(), runs, "{statement}");
        let asked = world.origin.both_asked();
        assert!(!asked.is_empty() && asked.iter().all(|class| *class == RunClass::Prefetch), "{asked:?}");
    }
}

/// Writes of one kind come at once, at one node. None goes before the answers.
#[tokio::test(start_paused = true)]
async fn parallel_writes_of_a_kind_wait_for_the_same_answers() {
    let (world, right, cached) = cached(461).await;
    let ask = world.ask(WRITE_DELETE_LEFT);
    let (one, two, three) = tokio::join!(world.send(1, &ask), world.send(1, &ask), world.send(1, &ask));
    assert!([one, two, three].iter().all(|outcome| is_answered(outcome.as_ref().unwrap())));
    assert!(is_kept(&world, &right, cached).await);
}

/// Neo4j does not answer the questions. The write waits for a short time, and ends what it may have changed. The next one of its kind does
/// not wait.
#[tokio::test(start_paused = true)]
async fn a_write_waits_for_a_short_time() {
    let (world, right, cached) = cached(462).await;
    world.origin.set_both_ms(60_000);
    for wait_ms in [AHEAD_OWN_MS, 0] {
        let began = sim_now();
        write_of(&world, 1, WRITE_DELETE_LEFT).await;
        let took = sim_now().since(began);
        assert!(Millis(wait_ms) <= took && took <= Millis(wait_ms + USUAL_MS), "{took:?}");
    }
    assert!(!is_kept(&world, &right, cached).await);
}

/// One node is stopped. The write goes to Neo4j after the time of a node's answer, and what the others have been told counts.
#[tokio::test(start_paused = true)]
async fn a_node_that_is_stopped_takes_no_answer_from_the_others() {
    let (world, right, cached) = cached(467).await;
    world.nodes[2].process.set(Power::Paused);
    let before = world.origin.version();
    let write = world.send(1, &world.ask(WRITE_DELETE_LEFT));
    world.pass(AHEAD_PEER_MS).await;
    assert_eq!(world.origin.version(), before);
    // Neo4j takes 20 ms for a write.
    world.pass(30).await;
    assert_eq!(world.origin.version(), before + 1);
    assert!(is_answered(&write.await.unwrap()));
    world.pass(SETTLED_MS).await;
    for node in [0, 1] {
        let outcome = read(&world, node, &right).await;
        assert!(is_hit(&outcome) && version(&outcome) == cached, "{node}: {outcome:?}");
    }
}

/// A write that gives or takes labels ends the answer itself. One that names its nodes by a value ends little.
#[tokio::test(start_paused = true)]
async fn other_writes_do_not_wait() {
    let (world, ..) = cached(463).await;
    world.origin.set_both_ms(60_000);
    for statement in [WRITE_BOTH, WRITE_ONE, WRITE_LEFT] {
        let began = sim_now();
        write_of(&world, 1, statement).await;
        let took = sim_now().since(began);
        assert!(took <= Millis(USUAL_MS), "{statement}: {took:?}");
    }
    assert_eq!(world.origin.both_asked(), []);
}

/// A client leaves while its write waits. It is carried out. One whose time is over is not.
#[tokio::test(start_paused = true)]
async fn a_write_that_waits_belongs_to_its_node_and_ends_in_its_time() {
    let (world, ..) = cached(464).await;
    world.origin.set_both_ms(60_000);
    let before = world.origin.version();
    let engine = Arc::clone(&world.nodes[1].engine);
    let ask = world.ask(WRITE_DELETE_LEFT);
    tokio::select! {
        biased;
        _ = engine.path().answer(&ask) => panic!("it waits"),
        () = world.pass(AHEAD_MS_MAX / 2) => {}
    }
    world.pass(AHEAD_MS_MAX).await;
    assert_eq!(world.origin.version(), before + 1);
    // The questions have ended without an answer.
    world.pass(2 * EXCLUSION_AGAIN_MS).await;
    let late = Ask { deadline: sim_now() + Millis(AHEAD_MS_MAX / 2), ..ask };
    let outcome = engine.path().answer(&late).await;
    assert_eq!(failure(&outcome), FailureKind::DeadlinePassed);
    world.pass(AHEAD_MS_MAX).await;
    assert_eq!(world.origin.version(), before + 1);
}

/// Neo4j refuses the credentials of a reader, who has changed the password. No question is asked with them again, for no kind of write, until
/// a run with them ends well.
#[tokio::test(start_paused = true)]
async fn who_was_refused_is_asked_for_no_more() {
    let (world, ..) = cached(465).await;
    world.origin.refuse_both();
    write_of(&world, 1, WRITE_DELETE_LEFT).await;
    let asked = world.origin.both_asked().len();
    assert!((1..=world.nodes.len()).contains(&asked), "{asked}");
    write_of(&world, 1, WRITE_ALL_LEFT).await;
    world.pass(EXCLUSION_AGAIN_MS).await;
    write_of(&world, 1, WRITE_DELETE_LEFT).await;
    assert_eq!(world.origin.both_asked().len(), asked);
    read(&world, 1, &world.ask("MATCH (m:Right) RETURN m AS version")).await;
    write_of(&world, 1, WRITE_ALL_LEFT).await;
    assert!(world.origin.both_asked().len() > asked);
}

/// Other writes are committed all the time, so an answer may be of a state of which the writing node has not heard.
#[tokio::test(start_paused = true)]
async fn other_writes_that_go_on_change_nothing() {
    let (world, right, cached) = cached(466).await;
    let others = async {
        for _ in 0..20 {
            let (one, two) = tokio::join!(world.send(0, &elsewhere(&world)), async {
                world.pass(7).await;
                world.send(2, &elsewhere(&world)).await
            });
            assert!(is_answered(&one.unwrap()) && is_answered(&two.unwrap()));
        }
    };
    tokio::join!(others, async {
        world.pass(100).await;
        write_of(&world, 1, WRITE_DELETE_LEFT).await;
    });
    world.pass(LONG_MS).await;
    assert!(is_kept(&world, &right, cached).await);
}

fn elsewhere(world: &World) -> Ask {
    world.ask(WRITE_ELSEWHERE)
}
