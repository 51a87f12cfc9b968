//! F2, I3, must-show 3: a holder that was paused past its lease writes late.

use std::time::{Duration, Instant};

use crate::containers::world::{World, query, run};
use crate::support::{distribution, http, say, size, until};

const FENCED: &str = "outcome=\"fenced\"";

/// The late commit is refused and counted, and the newer value stays, on every node.
#[test]
fn a_paused_holder_is_fenced() {
    run(async {
        let world = World::start("paused").await;
        let rounds = size("HOPCACHE_TEST_ROUNDS", 1);
        let label = "ContainPaused";
        world
            .at_neo4j(&format!("UNWIND range(0, {rounds}) AS k CREATE (:{label} {{k: k, value: 'old'}})"))
            .await;
        let mut waits = Vec::new();
        for round in 0..rounds {
            waits.push(pause_the_holder(&world, label, round).await);
            world.wait_until_whole().await;
        }
        world.at_neo4j(&format!("MATCH (n:{label}) DELETE n")).await;
        say(&format!(
            "F2, containers: {} of {rounds} late commits fenced, newer value everywhere",
            waits.len()
        ));
        say(&format!("F2, containers: holder paused to newer value: {}", distribution(&waits)));
    });
}

async fn pause_the_holder(world: &World, label: &str, round: usize) -> Duration {
    let statement = format!("MATCH (n:{label}) WHERE n.k = {round} RETURN n.value AS value");
    let request = query(&statement);
    world.proxy.hold_runs(&statement);
    let (owner, others) = world.owner(&statement).await;
    let (holder, other) = (&world.nodes[owner], &world.nodes[others[0]]);
    let fenced_before = holder.metric("hopcache_commits_total", FENCED).await;
    let own_client = tokio::spawn(http::crowd(vec![(holder.client(), request.clone())]));
    let run = world.proxy.wait_until(&statement, Duration::from_secs(10), |runs| !runs.is_empty());
    assert!(run.await, "the holder's run did not arrive");
    holder.container.pause().await;
    let paused = Instant::now();
    assert!(world.proxy.seen(&statement)[0].answered.is_none(), "paused only after the answer");
    world.proxy.resume();
    assert!(holder.container.is_paused().await);
    // The old value is read and waits in the paused holder's socket.
    let quiet = Duration::from_millis(100);
    until("Neo4j has answered the holder", Duration::from_secs(10), async || {
        world.proxy.seen(&statement)[0].answered.is_some_and(|at| at.elapsed() > quiet)
    })
    .await;
    world.at_neo4j(&format!("MATCH (n:{label}) WHERE n.k = {round} SET n.value = 'new'")).await;
    let newer = other.ask(&request).await;
    let waited = paused.elapsed();
    assert_eq!(newer.value(), "new", "round {round}: {newer}");

    holder.container.unpause().await;
    let late = own_client.await.unwrap().remove(0).expect("the holder answers its client");
    assert_eq!(late.value(), "old", "round {round}: the holder did not read before the change: {late}");
    until("the late commit is counted as fenced", Duration::from_secs(10), async || {
        holder.metric("hopcache_commits_total", FENCED).await >= fenced_before + 1.0
    })
    .await;
    for node in &world.nodes {
        let reply = node.ask(&request).await;
        assert_eq!(reply.value(), "new", "round {round}: {} gives the old value: {reply}", node.name);
        assert!(reply.is_hit(), "round {round}: {}: {reply}", node.name);
    }
    assert_eq!(world.proxy.runs(&statement), 2, "round {round}: one run of the holder, one of its successor");
    waited
}
