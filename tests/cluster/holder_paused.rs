//! F2, I3: a holder that sleeps past its lease and writes late.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::cluster::{Cluster, OwnLabel, at_neo4j};
use crate::support::{distribution, http, rounds, say, until};

const FENCED: &str = "outcome=\"fenced\"";

/// F2, I3: the late commit is refused and counted, and the newer value stays, on every node.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_holder_that_slept_past_its_lease_is_fenced() {
    let label = OwnLabel::new("Paused");
    let cluster = Cluster::start().await;
    at_neo4j(&format!("UNWIND range(0, {}) AS k CREATE (:{} {{k: k, value: 'old'}})", rounds(), label.0))
        .await;
    let mut waits = Vec::new();
    for round in 0..rounds() {
        waits.push(pause_the_holder(&cluster, &label, round).await);
        for node in &cluster.nodes {
            node.wait_for_members(3).await;
        }
    }
    say(&format!("F2: {} of {} late commits fenced, newer value everywhere", waits.len(), rounds()));
    say(&format!("F2: holder stopped to newer value: {}", distribution(&waits)));
}

async fn pause_the_holder(cluster: &Cluster, label: &OwnLabel, round: usize) -> Duration {
    let statement = format!("MATCH (n:{}) WHERE n.k = {round} RETURN n.value AS value", label.0);
    let request = http::query(&statement, &json!({}));
    cluster.proxy.hold_runs(&statement);
    let place = cluster.owner(&statement, &json!({})).await;
    let (holder, other) = (&cluster.nodes[place], &cluster.nodes[(place + 1) % 3]);
    let fenced_before = holder.metric("hopcache_commits_total", FENCED).await.unwrap_or(0.0);

    let own_client = tokio::spawn(http::crowd(vec![(holder.addrs.client, request.clone())]));
    assert!(
        cluster.proxy.wait_until(&statement, Duration::from_secs(10), |runs| !runs.is_empty()).await,
        "the holder's run did not arrive"
    );
    holder.signal("STOP");
    let stopped = Instant::now();
    assert!(cluster.proxy.seen(&statement)[0].answered.is_none(), "stopped only after the answer");
    cluster.proxy.resume();
    // The old value is read and waits in the stopped holder's socket.
    let quiet = Duration::from_millis(100);
    until("Neo4j has answered the holder", Duration::from_secs(10), async || {
        cluster.proxy.seen(&statement)[0].answered.is_some_and(|at| at.elapsed() > quiet)
    })
    .await;
    at_neo4j(&format!("MATCH (n:{}) WHERE n.k = {round} SET n.value = 'new'", label.0)).await;
    let newer = other.ask(&request).await;
    let waited = stopped.elapsed();
    assert_eq!(newer.value(), "new", "round {round}: {newer}");

    holder.signal("CONT");
    let late = own_client.await.unwrap().remove(0).expect("the holder answers its client");
    assert_eq!(late.value(), "old", "round {round}: the holder did not read before the change: {late}");
    let counted =
        async || holder.metric("hopcache_commits_total", FENCED).await.unwrap_or(0.0) == fenced_before + 1.0;
    until("the late commit is counted as fenced", Duration::from_secs(10), counted).await;
    for node in &cluster.nodes {
        let reply = node.ask(&request).await;
        assert_eq!(reply.value(), "new", "round {round}: {} gives the old value: {reply}", node.name);
        assert!(reply.is_hit(), "round {round}: {}: {reply}", node.name);
    }
    assert_eq!(
        cluster.proxy.runs(&statement),
        2,
        "round {round}: one run of the holder, one of its successor"
    );
    waited
}
