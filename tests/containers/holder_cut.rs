//! F2, I3, must-show 3: a holder is paused past its lease and wakes while it is cut off. Its connection to Redis is
//! older than the partition and survives it, so its writes of that time arrive after the heal.

use std::time::Duration;

use crate::containers::redis::{self, Monitor};
use crate::containers::world::{World, query, run};
use crate::support::{http, say, size, until};

/// After a cut this short, TCP repeats unacknowledged data within a second or two.
const ARRIVES_WITHIN: Duration = Duration::from_secs(30);

#[test]
fn a_commit_that_outlives_a_partition_is_refused() {
    run(async {
        let world = World::start("cut-holder").await;
        let rounds = size("HOPCACHE_TEST_ROUNDS", 1);
        let label = "ContainCut";
        world
            .at_neo4j(&format!("UNWIND range(0, {rounds}) AS k CREATE (:{label} {{k: k, value: 'old'}})"))
            .await;
        let (mut by_old_connection, mut fenced) = (0, 0.0);
        for round in 0..rounds {
            let outcome = cut_the_holder(&world, label, round).await;
            by_old_connection += usize::from(outcome.is_by_old_connection);
            fenced += outcome.fenced;
            world.wait_until_whole().await;
        }
        world.at_neo4j(&format!("MATCH (n:{label}) DELETE n")).await;
        say(&format!(
            "F2, containers, partition: {rounds} of {rounds} late commits arrived on healing and were refused, {by_old_connection} by the connection from before the cut; {fenced} counted as fenced by their node; the newer value everywhere at once, on the holder while it was cut off as well"
        ));
    });
}

/// The result of one round.
struct Outcome {
    /// The late commit came by a connection from before the cut.
    is_by_old_connection: bool,
    /// Commits that the holder itself counted as fenced.
    fenced: f64,
}

async fn cut_the_holder(world: &World, label: &str, round: usize) -> Outcome {
    let statement = format!("MATCH (n:{label}) WHERE n.k = {round} RETURN n.value AS value");
    let request = query(&statement);
    world.proxy.hold_runs(&statement);
    let (owner, others) = world.owner(&statement).await;
    let (holder, other) = (&world.nodes[owner], &world.nodes[others[0]]);
    let key = other.explain(&statement).await["query_key"].as_str().expect("a key").to_owned();
    let fenced_before = holder.metric("hopcache_commits_total", "outcome=\"fenced\"").await;
    let own_client = tokio::spawn(http::crowd(vec![(holder.client(), request.clone())]));
    let run = world.proxy.wait_until(&statement, Duration::from_secs(10), |runs| !runs.is_empty());
    assert!(run.await, "the holder's run did not arrive");
    holder.container.pause().await;
    assert!(world.proxy.seen(&statement)[0].answered.is_none(), "paused only after the answer");
    world.proxy.resume();
    let quiet = Duration::from_millis(100);
    until("Neo4j has answered the holder", Duration::from_secs(10), async || {
        world.proxy.seen(&statement)[0].answered.is_some_and(|at| at.elapsed() > quiet)
    })
    .await;
    let holder_addr = world.store.addr(holder.place);
    let connections = redis::ports_of(world.redis_addr(), holder_addr).await;
    assert!(!connections.is_empty(), "the holder has connections to Redis");
    let networks = [&world.peers, &world.store];
    world.cut(owner, &networks).await;
    world.at_neo4j(&format!("MATCH (n:{label}) WHERE n.k = {round} SET n.value = 'new'")).await;
    let newer = other.ask(&request).await;
    assert_eq!(newer.value(), "new", "round {round}: {newer}");

    let monitor = Monitor::start(world.redis_addr()).await;
    holder.container.unpause().await;
    let late = own_client.await.unwrap().remove(0).expect("the holder answers its client");
    assert_eq!(late.value(), "old", "round {round}: the holder did not read before the change: {late}");
    // Its lease has lapsed. Without its store the node cannot know the current leader, so it keeps nothing.
    let next = holder.ask(&request).await;
    assert_eq!(next.value(), "new", "round {round}: the old value was kept: {next}");
    let counted = holder.metric("hopcache_commits_total", "outcome=\"fenced\"").await - fenced_before;
    assert!(counted >= 1.0, "round {round}: {counted} fenced by its own clock");
    assert!(monitor.commits(holder_addr, &key).is_empty(), "a commit came through the cut");
    world.heal(owner, &networks).await;
    until("the late commit arrives at Redis", ARRIVES_WITHIN, async || {
        !monitor.commits(holder_addr, &key).is_empty()
    })
    .await;
    world.wait_until_whole().await;
    for node in &world.nodes {
        let reply = node.ask(&request).await;
        assert_eq!(reply.value(), "new", "round {round}: {} gives the old value: {reply}", node.name);
    }
    let entry = other.explain(&statement).await["entry"].clone();
    assert_ne!(entry["stored_by"], holder.name.as_str(), "round {round}: {entry}");
    let came_by = monitor.commits(holder_addr, &key);
    let is_by_old_connection = came_by.iter().any(|port| connections.contains(port));
    // The old connection. With a new one, no connection has survived the partition, and this is another fault.
    assert!(
        is_by_old_connection,
        "round {round}: it came by {came_by:?}, before the cut there were {connections:?}"
    );
    Outcome { is_by_old_connection, fenced: counted }
}
