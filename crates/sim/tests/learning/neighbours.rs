//! Typed neighbours: what a result names by label and key is read ahead, before any session has shown that it follows.

use super::*;
use crate::learning::busy::with_number;

/// Names a `V` by its id: the answer of the simulated origin is the version.
const LIST: &str = "MATCH (v:V) RETURN v.id AS version";
const OF_V: &str = "MATCH (v:V {id: $id})--(w:W) RETURN w.id AS version";
const OF_W: &str = "MATCH (w:W {id: $id}) RETURN w";
const VERSION: i64 = 6_000;

fn with_depth(steps_max: u8) -> Policy {
    let prefetch = PrefetchPolicy { neighbour_steps_max: steps_max, ..PrefetchPolicy::DEFAULT };
    Policy { prefetch, ..policy() }
}

fn unnamed(world: &World, statement: &str, id: i64) -> Ask {
    Ask { session: None, ..with_number(world, (statement, id), [0; 16]) }
}

/// A world whose nodes have been asked both patterns, each for other ids, by clients without a session.
async fn asked_world(policy: &Policy) -> World {
    let world = learning_world(3, 105, policy);
    earn(&world).await;
    for id in 0..24 {
        for statement in [OF_V, OF_W] {
            ask(&world, usize::try_from(id).unwrap() % 3, &unnamed(&world, statement, id)).await;
        }
    }
    world.origin.set_version(VERSION);
    world
}

fn has(world: &World, asked: &Ask) -> bool {
    world.nodes.iter().any(|node| node.memory.get(&asked.query.key).is_some())
}

/// Issue 45, step 3: one answer is enough, and no session. `prefetch.depth` counts the steps.
#[tokio::test(start_paused = true)]
async fn what_a_result_names_is_read_ahead_for_so_many_steps() {
    for depth in 0..=2 {
        let world = asked_world(&with_depth(depth)).await;
        ask(&world, 0, &world.ask_in("neo4j", LIST, "alice")).await;
        world.pass(1_000).await;
        let steps = [OF_V, OF_W].map(|statement| has(&world, &unnamed(&world, statement, VERSION)));
        assert_eq!(steps, [depth > 0, depth > 1], "depth {depth}");
        assert_eq!(is_hit(&ask(&world, 1, &unnamed(&world, OF_V, VERSION)).await), depth > 0);
    }
}

/// I5: a pattern that one principal asks, or asks in one database, is no neighbour of another's answers.
#[tokio::test(start_paused = true)]
async fn neighbours_cross_neither_principals_nor_databases() {
    let world = asked_world(&with_depth(1)).await;
    let launched = || count(&world, |event| matches!(event, Event::Prefetch(PrefetchWord::Launched(_))));
    let before = launched();
    for (database, user) in [("neo4j", "bob"), ("movies", "alice")] {
        ask(&world, 0, &world.ask_in(database, LIST, user)).await;
        world.pass(1_000).await;
    }
    assert_eq!(launched(), before);
    ask(&world, 0, &world.ask_in("neo4j", LIST, "alice")).await;
    world.pass(1_000).await;
    assert_eq!(launched(), before + 1, "alice has asked it");
}

/// Neighbours that nobody asks for end: by their own launches, which are counted for the pair of patterns, and where sessions show that
/// something else follows.
#[tokio::test(start_paused = true)]
async fn neighbours_that_nobody_asks_for_end() {
    for (in_sessions, launches_max) in [(false, 34), (true, 25)] {
        let world = asked_world(&with_depth(1)).await;
        let launched = || count(&world, |event| matches!(event, Event::Prefetch(PrefetchWord::Launched(_))));
        let (before, mut last) = (launched(), 0);
        for round in 0..60_i64 {
            world.origin.set_version(VERSION + round);
            for node in &world.nodes {
                node.memory.forget_all();
            }
            world.store.lose_everything();
            earn(&world).await;
            let list = world.ask_in("neo4j", LIST, "alice");
            let session = in_sessions.then_some(SessionTag([u8::try_from(round).unwrap(); 16]));
            last = launched();
            ask(&world, 0, &Ask { session, ..list }).await;
            world.pass(2_000).await;
        }
        assert_eq!(launched(), last, "none any more");
        assert!((1..=launches_max).contains(&(launched() - before)), "{} launches", launched() - before);
    }
}
