//! Nodes learn the cost of runs by pattern and by principal: one principal's slow variant of a statement lengthens no
//! other principal's leases.

use crate::prelude::*;

/// One pattern: its literal decides how long it takes.
fn variant(number: u32) -> String {
    format!("MATCH (n) WHERE n.id = {number} RETURN n.version AS version")
}

/// The lease that a run of this statement gets, as the store grants it.
async fn lease_ms(world: &World, database: &str, statement: &str, user: &str) -> u64 {
    world.origin.set_delay_ms(500);
    let ask = world.ask_in(database, statement, user);
    let run = world.send(0, &ask);
    world.pass(100).await;
    let path = world.nodes[0].engine.path();
    let (_, _, lease_ms) = path.explain(&ask.query, Hints::default()).await.lease.expect("a lease");
    assert!(matches!(run.await.unwrap().answer, Answer::Body(_)));
    lease_ms.0
}

/// Issue 15, 10: eve runs a pattern for 20 s; the leases of the same pattern stay as they are for another principal,
/// and in another database.
#[tokio::test(start_paused = true)]
async fn a_principals_slow_runs_lengthen_no_other_principals_leases() {
    let world = World::new(1, 91);
    for number in 0..3 {
        lease_ms(&world, "neo4j", &variant(number), "ann").await;
    }
    let usual_ms = lease_ms(&world, "neo4j", &variant(3), "ann").await;
    world.origin.set_delay_ms(20_000);
    let slow = world.send(0, &world.ask_in("neo4j", &variant(100), "eve"));
    assert!(matches!(slow.await.unwrap().answer, Answer::Body(_)));
    let after_ms = lease_ms(&world, "neo4j", &variant(4), "ann").await;
    assert!(after_ms < 2 * usual_ms, "another principal's: {usual_ms} ms before, {after_ms} ms after");
    let unknown_ms = lease_ms(&world, "other", &variant(5), "eve").await;
    let own_ms = lease_ms(&world, "neo4j", &variant(6), "eve").await;
    assert!(
        own_ms > 9_000 && unknown_ms <= 5_000,
        "eve's own {own_ms} ms, in another database {unknown_ms} ms"
    );
}

/// A key that ran once has no history of its own: its copy has the cost, with that of its pattern. The first plan makes a history of
/// it.
#[tokio::test(start_paused = true)]
async fn a_key_that_ran_once_takes_no_place_and_its_first_plan_knows_its_cost() {
    let world = World::new(1, 92);
    for (number, delay_ms) in [(0, 500), (1, 500), (2, 50)] {
        world.origin.set_delay_ms(delay_ms);
        let answered = world.send(0, &world.ask_in("neo4j", &variant(number), "ann")).await;
        assert!(matches!(answered.unwrap().answer, Answer::Body(_)));
    }
    let path = world.nodes[0].engine.path();
    assert_eq!((path.sizes().keys, path.sizes().patterns), (0, 1));
    let ask = world.ask_in("neo4j", &variant(2), "ann");
    let copy = path.explain(&ask.query, Hints::default()).await.refresh.copy.expect("a copy");
    let mean_ms = copy.facts.cost.mean_ms;
    assert!((340.0..370.0).contains(&mean_ms), "of 500, 500 and 50 ms: {mean_ms}");
    assert_eq!(path.sizes().keys, 1);
}
