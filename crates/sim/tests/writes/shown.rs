//! A result that shows which nodes it is about: a write to another node ends nothing, and one after which a shown node is another does.

use hopcache_sim::world::write_statement::{SHOWN, WRITE_MOVED, WRITE_ONE, WRITE_SHOWN, WRITE_SHOWN_MOVED};

use super::proofs::{BOUND_MS, LONG_MS, WATCH_MS, warm_world};
use super::warm;
use crate::prelude::*;

/// The origin's rows have three columns, and its version is in the first one.
const NODES: &str = "MATCH (n:Left) RETURN n.id AS version, n.name AS name, n.seen AS seen";

async fn write_of(world: &World, node: usize, statement: &str) {
    let outcome = world.send(node, &world.ask(statement)).await.unwrap();
    assert!(matches!(outcome.answer, Answer::Body(_)), "{outcome:?}");
}

/// A watched world whose cached result shows the node [`SHOWN`], and the result's owner.
async fn shown(seed: u64) -> (World, Ask, usize) {
    let (world, _) = warm_world(seed, WATCH_MS).await;
    // Each node uses the names once: a later write takes no id for them.
    for number in 0.. {
        if i64::from(world.origin.version()) >= SHOWN {
            break;
        }
        let statement = if number % 2 == 0 { WRITE_ONE } else { WRITE_MOVED };
        write_of(&world, number % world.nodes.len(), statement).await;
    }
    world.pass(LONG_MS).await;
    let ask = world.ask(NODES);
    let owner = world.owner_of(&ask);
    warm(&world, &ask).await;
    world.pass(BOUND_MS).await;
    assert_eq!(version(&read(&world, owner, &ask).await), SHOWN);
    (world, ask, owner)
}

#[tokio::test(start_paused = true)]
async fn a_write_to_a_node_that_is_not_shown_ends_nothing() {
    let (world, ask, owner) = shown(470).await;
    let runs = world.origin.runs();
    for node in 0..world.nodes.len() {
        write_of(&world, node, WRITE_ONE).await;
        world.pass(BOUND_MS).await;
        let outcome = read(&world, owner, &ask).await;
        assert!(is_hit(&outcome) && version(&outcome) == SHOWN, "{outcome:?}");
    }
    assert_eq!(world.origin.runs(), runs, "it is not read again");
    write_of(&world, 0, WRITE_SHOWN).await;
    let now = i64::from(world.origin.version());
    assert_eq!(version(&read(&world, owner, &ask).await), now, "it is shown");
}

#[tokio::test(start_paused = true)]
async fn a_shown_node_that_becomes_another_ends_its_result() {
    let (world, ask, owner) = shown(471).await;
    write_of(&world, 0, WRITE_SHOWN_MOVED).await;
    world.pass(BOUND_MS).await;
    let now = i64::from(world.origin.version());
    assert_eq!(version(&read(&world, owner, &ask).await), now);
}
