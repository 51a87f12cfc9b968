//! What a write has ended stands in while Neo4j cannot be reached, and not for what one run met, unless the request allows
//! it.

use super::{NODES, warm, world_of, write};
use crate::prelude::*;

const SLOW_MS: u64 = 20_000;

/// A world whose entry a write has just ended.
async fn ended_world(seed: u64) -> (World, Ask) {
    let policy = Policy { stale_if_error_ms: Millis(600_000), ..super::proved() };
    let world = world_of(NODES, seed, &policy).await;
    let ask = world.ask(READ);
    warm(&world, &ask).await;
    write(&world, 0).await;
    (world, ask)
}

fn cut() -> OriginBehavior {
    OriginBehavior::Fault(OriginFault::Cut("seeded".to_owned()))
}

fn is_marked(outcome: &Outcome) -> bool {
    outcome.how.detail == Some(Detail::StaleIfError)
}

/// All wait for the run, however long it takes, and whether memory or the store has the old value.
#[tokio::test(start_paused = true)]
async fn a_slow_run_is_waited_for_after_a_write() {
    for memory_forgets in [false, true] {
        let (world, ask) = ended_world(470).await;
        world.origin.set_slow(READ, SLOW_MS);
        if memory_forgets {
            world.nodes[world.owner_of(&ask)].memory.forget_all();
        }
        let readers: Vec<_> = (0..2 * NODES).map(|reader| world.send(reader % NODES, &ask)).collect();
        for reader in readers {
            assert_eq!(version(&reader.await.unwrap()), 2);
        }
        assert_eq!((world.origin.runs(), stale_served(&world)), (2, 0));
    }
}

/// A Neo4j that is late with its answer to a probe may collect garbage, and it has answered the write. Nothing from before the write stands in until
/// a probe has failed.
#[tokio::test(start_paused = true)]
async fn a_late_neo4j_brings_no_ended_value_back() {
    let (world, ask) = ended_world(479).await;
    // A probe fails after 2 s.
    world.origin.set_slow(READ, 1_500);
    world.origin.set_late(true);
    let readers: Vec<_> = (0..2 * NODES).map(|reader| world.send(reader % NODES, &ask)).collect();
    for reader in readers {
        assert_eq!(version(&reader.await.unwrap()), 2);
    }
    assert_eq!(stale_served(&world), 0);
    // What only its age has ended stands in at once.
    world.origin.set_late(false);
    warm(&world, &ask).await;
    world.pass(90_000).await;
    world.origin.set_late(true);
    let began = sim_now();
    let ask = Ask { deadline: sim_now() + Millis(30_000), ..ask };
    for node in 0..NODES {
        let outcome = read(&world, node, &ask).await;
        assert!(version(&outcome) == 2 && is_marked(&outcome), "{outcome:?}");
    }
    assert!(sim_now().since(began) < Millis(1_000));
}

/// A request that gives up first gets no old value either. Nor does one whose own limit ends the run.
#[tokio::test(start_paused = true)]
async fn who_does_not_wait_gets_no_value_from_before_the_write() {
    let (world, ask) = ended_world(471).await;
    let owner = world.owner_of(&ask);
    world.origin.set_slow(READ, SLOW_MS);
    let hurried = Ask { deadline: sim_now() + Millis(1_500), ..ask.clone() };
    let limited = Ask { run_ms_max: Some(Millis(200)), ..ask.clone() };
    let own_limit = FailureKind::Neo4j(Neo4jFailure::clients_time_is_over());
    for (ask, expected) in [(limited, own_limit), (hurried, FailureKind::DeadlinePassed)] {
        let outcome = read(&world, owner, &ask).await;
        let Answer::Failed(failure) = &outcome.answer else { panic!("{outcome:?}") };
        assert_eq!(failure.kind, expected);
    }
    assert_eq!(stale_served(&world), 0);
}

/// `max-stale` allows it.
#[tokio::test(start_paused = true)]
async fn a_request_that_allows_it_gets_the_old_value_at_once() {
    let (world, ask) = ended_world(472).await;
    world.origin.set_slow(READ, SLOW_MS);
    let freshness = Freshness { stale_max_ms: Some(Millis(60_000)), ..Freshness::default() };
    let began = sim_now();
    for node in 0..NODES {
        let outcome = read(&world, node, &Ask { freshness, ..ask.clone() }).await;
        assert_eq!((version(&outcome), outcome.how.detail), (1, Some(Detail::Stale)));
    }
    assert!(sim_now().since(began) < Millis(100));
}

/// A write was answered, and then one run does not end well while Neo4j is there: every node gives the failure, never the
/// value from before the write. So does a node whose key is held back after it.
#[tokio::test(start_paused = true)]
async fn what_one_run_met_brings_nothing_back() {
    let met = [
        OriginFault::TimedOut,
        OriginFault::Cut("reset".to_owned()),
        OriginFault::Overloaded,
        // One connection was not opened in time, and the gate knows that Neo4j is there.
        away(),
        OriginFault::Transient(said("Neo.TransientError.General.MemoryPoolOutOfMemoryError")),
        OriginFault::Failed(said("Neo.DatabaseError.General.UnknownError")),
        OriginFault::Failed(said("Neo.ClientError.Transaction.Terminated")),
    ];
    for (seed, fault) in (480..).zip(met) {
        for memory_forgets in [false, true] {
            let (world, ask) = ended_world(seed).await;
            world.origin.set_behavior(OriginBehavior::Fault(fault.clone()));
            if memory_forgets {
                world.nodes[world.owner_of(&ask)].memory.forget_all();
            }
            // The later rounds find the key held back.
            for round in 0..3 {
                for node in 0..NODES {
                    let outcome = read(&world, node, &ask).await;
                    assert!(
                        matches!(outcome.answer, Answer::Failed(_)),
                        "{fault:?}, round {round}: {outcome:?}"
                    );
                }
            }
            assert_eq!(stale_served(&world), 0, "{fault:?}");
            world.origin.set_behavior(OriginBehavior::Well);
            world.pass(11_000).await;
            assert_eq!(version(&read(&world, 0, &ask).await), 2);
        }
    }
}

/// The request says that it takes nothing stale, and what a write has ended is stale at any age.
#[tokio::test(start_paused = true)]
async fn max_stale_counts_in_an_outage() {
    for (stale_max_ms, is_served) in [(0, false), (60_000, true)] {
        let (world, ask) = ended_world(476).await;
        world.origin.set_behavior(OriginBehavior::Fault(away()));
        world.origin.set_away(true);
        let freshness = Freshness { stale_max_ms: Some(Millis(stale_max_ms)), ..Freshness::default() };
        for node in 0..NODES {
            let outcome = read(&world, node, &Ask { freshness, ..ask.clone() }).await;
            assert_eq!(matches!(outcome.answer, Answer::Body(_)), is_served, "{stale_max_ms}: {outcome:?}");
        }
    }
}

/// One node cannot reach Neo4j, which the others do: these get nothing from it that a write has ended, nor its failures.
#[tokio::test(start_paused = true)]
async fn what_one_node_cannot_reach_the_others_read() {
    for has_entry in [true, false] {
        let (world, ask) = ended_world(477).await;
        let owner = world.owner_of(&ask);
        world.origin.cut_off(Some(owner));
        if !has_entry {
            world.nodes[owner].memory.forget_all();
        }
        let outcome = read(&world, owner, &ask).await;
        assert!(version(&outcome) == 1 && is_marked(&outcome), "it knows no better: {outcome:?}");
        for node in (0..NODES).filter(|node| *node != owner) {
            let outcome = read(&world, node, &ask).await;
            assert!(version(&outcome) == 2 && !is_marked(&outcome), "node {node}: {outcome:?}");
        }
    }
}

/// Neo4j is known to be away: the old value is better than none, and says what it is.
#[tokio::test(start_paused = true)]
async fn a_neo4j_that_is_away_is_stood_in_for() {
    let (world, ask) = ended_world(473).await;
    world.origin.set_behavior(OriginBehavior::Fault(away()));
    world.origin.set_away(true);
    for node in 0..NODES {
        let outcome = read(&world, node, &ask).await;
        assert!(version(&outcome) == 1 && is_marked(&outcome), "{outcome:?}");
    }
    let (world, ask) = ended_world(474).await;
    world.origin.set_slow(READ, SLOW_MS);
    world.origin.set_away(true);
    let began = sim_now();
    for node in 0..NODES {
        let outcome = read(&world, node, &ask).await;
        assert!(version(&outcome) == 1 && is_marked(&outcome), "{outcome:?}");
    }
    assert!(sim_now().since(began) < Millis(100));
}

/// A run failed, and then a write was answered: Neo4j is well again, and its slow run is waited for.
#[tokio::test(start_paused = true)]
async fn a_failure_from_before_the_write_is_no_reason() {
    let policy = Policy { stale_if_error_ms: Millis(600_000), ..super::proved() };
    let world = world_of(NODES, 475, &policy).await;
    let ask = world.ask(READ);
    warm(&world, &ask).await;
    world.origin.set_behavior(cut());
    let owner = world.owner_of(&ask);
    let anew = Freshness { no_cache: true, ..Freshness::default() };
    let failed = read(&world, owner, &Ask { freshness: anew, ..ask.clone() }).await;
    assert!(matches!(failed.answer, Answer::Failed(_)), "{failed:?}");
    world.origin.set_behavior(OriginBehavior::Well);
    world.pass(11_000).await;
    write(&world, 0).await;
    world.origin.set_slow(READ, SLOW_MS);
    assert_eq!(version(&read(&world, owner, &ask).await), 2);
    assert_eq!(stale_served(&world), 0);
}

/// CASES G1: the newest result stands in that any node has stored, not what a node has in memory since it stood in for the owner.
/// Schedule:
///   the owner cannot reach Neo4j, and the entry node runs for itself · the owner reaches it again, and two writes follow · the owner, and
///   then the entry node, cannot reach Neo4j
#[tokio::test(start_paused = true)]
async fn the_newest_stored_result_stands_in() {
    let (world, ask) = ended_world(478).await;
    let owner = world.owner_of(&ask);
    let entry = (owner + 1) % NODES;
    world.origin.cut_off(Some(owner));
    assert_eq!(version(&read(&world, entry, &ask).await), 2);
    world.origin.cut_off(None);
    for expected in [3, 4] {
        write(&world, owner).await;
        assert_eq!(version(&read(&world, entry, &ask).await), expected);
    }
    write(&world, owner).await;
    world.origin.set_slow(READ, SLOW_MS);
    world.origin.cut_off(Some(owner));
    let reader = world.send(entry, &ask);
    world.pass(50).await;
    world.origin.set_away(true);
    let outcome = reader.await.unwrap();
    assert!(version(&outcome) == 4 && is_marked(&outcome), "{outcome:?}");
}

/// What an owner cannot run that has lost Neo4j, a node runs that reaches it. The run that hangs keeps its lease until its deadline.
#[tokio::test(start_paused = true)]
async fn a_run_that_hangs_where_neo4j_is_lost_is_run_elsewhere() {
    let (world, ask) = ended_world(479).await;
    let owner = world.owner_of(&ask);
    world.origin.set_slow(READ, 600_000);
    let reader = world.send((owner + 1) % NODES, &Ask { freshness: anew(), ..ask });
    world.pass(1_000).await;
    world.origin.cut_off(Some(owner));
    world.origin.set_slow(READ, 20);
    let outcome = reader.await.unwrap();
    assert!(version(&outcome) == 2 && !is_marked(&outcome), "{outcome:?}");
}

/// Takes no stored answer.
fn anew() -> Freshness {
    Freshness { no_cache: true, ..Freshness::default() }
}
