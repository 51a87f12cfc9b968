//! Learning over simulated nodes (DESIGN "Prefetch"): what a session teaches through one node is predicted, and warmed,
//! for a session at any other; nothing crosses principals or databases; what did not follow is not learned.

use std::sync::Arc;

use hopcache_core::time::Millis;
use hopcache_engine::Policy;
use hopcache_engine::ask::{Ask, SessionTag};
use hopcache_engine::outcome::{Class, Event, ObservationWord, Outcome, PrefetchWord, ShareWord};
use hopcache_engine::prefetch::PrefetchPolicy;
use hopcache_sim::World;
use hopcache_sim::world::{default_policy, sim_now};

const FIRST: &str = "MATCH (a) RETURN a";
const SECOND: &str = "MATCH (b) RETURN b";

fn policy() -> Policy {
    Policy { prefetch: PrefetchPolicy::DEFAULT, ..default_policy() }
}

fn learning_world(nodes: usize, seed: u64, policy: &Policy) -> World {
    let world = World::with_policy(nodes, seed, policy);
    for node in &world.nodes {
        let engine = Arc::clone(&node.engine);
        tokio::spawn(async move { engine.tell_observations().await });
        let engine = Arc::clone(&node.engine);
        tokio::spawn(async move { engine.learn_lessons().await });
        let engine = Arc::clone(&node.engine);
        tokio::spawn(async move { engine.share_lessons().await });
    }
    world
}

/// Asks as a client of node `node` does, and shows the answer to learning as `Front` does.
async fn ask(world: &World, node: usize, ask: &Ask) -> Outcome {
    let engine = &world.nodes[node].engine;
    let mut ask = ask.clone();
    let started = sim_now();
    ask.deadline = started + Millis(60_000);
    let outcome = match engine.hit(&ask) {
        Some(outcome) => outcome,
        None => engine.answer(&ask).await,
    };
    engine.observe(&ask, &outcome, started);
    outcome
}

fn of_session(world: &World, session: u8, user: &str, (database, statement): (&str, &str)) -> Ask {
    Ask { session: Some(SessionTag([session; 16])), ..world.ask_in(database, statement, user) }
}

fn count(world: &World, such: impl Fn(&Event) -> bool) -> usize {
    world.nodes.iter().map(|node| node.events.count(&such)).sum()
}

fn observed(world: &World, word: ObservationWord) -> u32 {
    let mut sum = 0;
    for node in &world.nodes {
        node.events.each(|event| {
            if let Event::Observed(said, count) = event
                && *said == word
            {
                sum += count;
            }
        });
    }
    sum
}

/// Demand misses, so that each node's budget has a token (`learning/budget.rs`: four of them each).
async fn earn(world: &World) {
    for number in 0..80 {
        let statement = format!("MATCH (earned) RETURN {number} AS number");
        let asked = world.ask_in("neo4j", &statement, "carol");
        ask(world, number % world.nodes.len(), &asked).await;
    }
}

/// One session asks the first and then the second, through these nodes, with a person's pauses.
async fn walk(world: &World, session: u8, user: &str, nodes: [usize; 2]) -> [Outcome; 2] {
    let first = ask(world, nodes[0], &of_session(world, session, user, ("neo4j", FIRST))).await;
    world.pass(2_000).await;
    let second = ask(world, nodes[1], &of_session(world, session, user, ("neo4j", SECOND))).await;
    world.pass(2_000).await;
    [first, second]
}

async fn forget_everything(world: &World) {
    for node in &world.nodes {
        node.memory.forget_all();
    }
    world.store.lose_everything();
    world.pass(10).await;
}

fn is_hit(outcome: &Outcome) -> bool {
    outcome.how.class == Class::Hit
}

/// DESIGN "Prefetch": what one session teaches, its node warms for the next one.
#[tokio::test(start_paused = true)]
async fn one_node_learns_and_warms() {
    let world = learning_world(1, 71, &policy());
    earn(&world).await;
    for session in 0..3 {
        walk(&world, session, "alice", [0, 0]).await;
        forget_everything(&world).await;
    }
    let [first, second] = walk(&world, 9, "alice", [0, 0]).await;
    assert!(!is_hit(&first) && is_hit(&second), "{:?} {:?}", first.how, second.how);
    assert!(count(&world, |event| *event == Event::Prefetch(PrefetchWord::Used)) >= 1);
}

/// DESIGN "Prefetch": what was taught through A is predicted by whoever owns another session, and warmed for C.
#[tokio::test(start_paused = true)]
async fn what_is_taught_at_one_node_is_warmed_at_all() {
    let world = learning_world(3, 72, &policy());
    earn(&world).await;
    for session in 0..3 {
        walk(&world, session, "alice", [0, 1]).await;
        forget_everything(&world).await;
    }
    assert!(count(&world, |event| matches!(event, Event::Shared(ShareWord::Merged, _))) > 0);
    let mut hits = 0;
    for session in 20..30 {
        let [_, second] = walk(&world, session, "alice", [2, 1]).await;
        hits += usize::from(is_hit(&second));
        forget_everything(&world).await;
    }
    assert!(hits >= 8, "{hits} of 10 sessions of any owner met what others had taught");
}
