//! Pages: several statements about the same thing, one after the other, in one session.

use super::*;
use crate::learning::busy::with_number;

const PAGE: [&str; 5] = [
    "MATCH (t:Thing {id: $id}) RETURN t",
    "MATCH (t:Thing {id: $id})-[:HAS]->(p) RETURN p",
    "MATCH (t:Thing {id: $id})<-[:MADE]-(m) RETURN m",
    "MATCH (t:Thing {id: $id})-[:LIKE]-(o) RETURN o",
    "MATCH (t:Thing {id: $id})<-[:SAW]-(v) RETURN count(v) AS views",
];
const RUN_MS: u64 = 5;

/// How long a page takes, in milliseconds. The client asks each statement when it has the answer to the one before.
async fn page_ms(world: &World, node: usize, id: i64) -> u64 {
    let began = sim_now();
    let session = [u8::try_from(id).unwrap(); 16];
    for statement in PAGE {
        ask(world, node, &with_number(world, (statement, id), session)).await;
        // The client reads the answer.
        world.pass(1).await;
    }
    sim_now().since(began).0
}

/// Issue 45, must show 2. The other statements of a page run beside the first one, so a page nobody has visited takes a run and not
/// five.
#[tokio::test(start_paused = true)]
async fn a_page_of_cold_keys_takes_about_one_run() {
    let took = async |policy: &Policy| {
        let world = learning_world(3, 101, policy);
        earn(&world).await;
        world.origin.set_delay_ms(RUN_MS);
        for id in 1..=24 {
            page_ms(&world, usize::try_from(id).unwrap() % 3, id).await;
            world.pass(3_000).await;
        }
        let runs = world.origin.runs();
        let ms = page_ms(&world, 1, 100).await;
        world.pass(1_000).await;
        (ms, world.origin.runs() - runs)
    };
    let (without_ms, without_runs) = took(&Policy { prefetch: PrefetchPolicy::OFF, ..policy() }).await;
    let (ms, runs) = took(&policy()).await;
    // Hops and the client's reading are in both.
    assert_eq!(without_ms - ms, 4 * RUN_MS, "{ms} ms, and {without_ms} without prefetch");
    assert_eq!((runs, without_runs), (5, 5));
}

/// No prefetch says what follows it: of a chain of seven statements the first one brings as many as a request may, and nothing brings the
/// others.
#[tokio::test(start_paused = true)]
async fn a_chain_ends_after_its_steps() {
    let world = learning_world(3, 102, &policy());
    earn(&world).await;
    let chain: Vec<String> =
        (0..7).map(|step| format!("MATCH (s:Step{step} {{id: $id}}) RETURN s")).collect();
    let at = |step: usize, id: i64| with_number(&world, (&chain[step], id), [u8::try_from(id).unwrap(); 16]);
    for id in 1..=24 {
        for step in 0..chain.len() {
            ask(&world, usize::try_from(id).unwrap() % 3, &at(step, id)).await;
            world.pass(1).await;
        }
        world.pass(3_000).await;
    }
    ask(&world, 1, &at(0, 100)).await;
    world.pass(30_000).await;
    let has = |step: usize| {
        let key = at(step, 100).query.key;
        world.nodes.iter().any(|node| node.memory.get(&key).is_some())
    };
    let brought: Vec<bool> = (0..chain.len()).map(has).collect();
    assert_eq!(brought, [true, true, true, true, true, false, false]);
}
