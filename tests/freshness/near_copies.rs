//! Near copies of a hot key at nodes that do not own it: served there, reported to the owner, never older than the
//! entry, and removed by a purge at once.
//!
//! `HOPCACHE_TEST_RATE=1000 HOPCACHE_TEST_TTLS=10` for more (150 requests a second over 2 TTLs of 3 s otherwise).

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::scripted_cluster::{ScriptedCluster, WAIT_MAX, age_s, is_stale, lines, total, versioned};
use crate::support::load::Load;
use crate::support::{say, size, until};

const TTL: Duration = Duration::from_secs(3);

async fn near_hits(cluster: &ScriptedCluster) -> f64 {
    total(&cluster.nodes, "hopcache_near_hits_total", "").await
}

async fn forwards(cluster: &ScriptedCluster) -> f64 {
    total(&cluster.nodes, "hopcache_forwards_total", "").await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hot_key_is_served_by_nodes_that_do_not_own_it() {
    let ttls = size("HOPCACHE_TEST_TTLS", 2_usize);
    let cluster = ScriptedCluster::start(3, lines("3s", 0.5, "10m", "[refresh]\nmin_ttl = \"1s\""), "").await;
    let (statement, request) = versioned("near");
    cluster.neo4j.orders().set_version(1);
    cluster.proxy.delay_runs(&statement, Duration::from_millis(20));
    cluster.warm(&request).await;
    let owner = cluster.owner(&statement, &json!({})).await;
    let others: Vec<_> = (0..3).filter(|node| *node != owner).map(|node| cluster.clients()[node]).collect();

    // No client asks the owner itself: it knows the key's heat from reports only.
    let load = Load::start(&others, std::slice::from_ref(&request), size("HOPCACHE_TEST_RATE", 150));
    until("near copies are served", WAIT_MAX, async || near_hits(&cluster).await >= 20.0).await;
    let (near_before, forwards_before) = (near_hits(&cluster).await, forwards(&cluster).await);
    let requests_before = total(&cluster.nodes, "hopcache_requests_total", "").await;
    let runs_before = cluster.proxy.runs(&statement);
    let more = move |runs: &[crate::support::bolt_proxy::RunSeen]| runs.len() >= runs_before + ttls;
    let refreshed = cluster.proxy.wait_until(&statement, TTL * 2 * ttls as u32 + WAIT_MAX, more).await;
    let near = near_hits(&cluster).await - near_before;
    let hops = forwards(&cluster).await - forwards_before;
    let requests = total(&cluster.nodes, "hopcache_requests_total", "").await - requests_before;
    assert!(refreshed, "the owner did not refresh a key that is asked for elsewhere");
    assert!(near > 0.0 && hops < requests / 2.0, "{near} near hits, {hops} hops of {requests} requests");

    let purged_at = purge_under_load(&cluster, &statement, owner).await;
    until("the new value is near again", WAIT_MAX, async || {
        cluster.nodes[(owner + 1) % 3].ask(&request).await.value() == "2"
    })
    .await;
    let samples = load.stop().await;
    let stale = samples.iter().filter(|sample| is_stale(sample.reply())).count();
    let late = total(&cluster.nodes, "hopcache_refresh_late_total", "").await;
    say(&format!(
        "near copies: {near} near hits and {hops} hops of {requests} requests; {} answers, {stale} stale, {late} late refreshes",
        samples.len()
    ));
    for sample in &samples {
        let reply = sample.reply();
        assert_eq!(reply.status, 202, "{reply}");
        // A run's own answer has no age.
        let is_in_time = !reply.is_hit() || is_stale(reply) || age_s(reply) <= TTL.as_secs();
        assert!(is_in_time, "a near copy outlived its entry: {reply}");
        // Due after the purge was answered, so sent after it.
        assert!(sample.due < purged_at || reply.value() == "2", "purged, and served: {reply}");
    }
    assert!(
        total(&cluster.nodes, "xfetch_refresh_triggered_total", "").await > late,
        "every refresh was late: the owner does not know of the hits"
    );
}

/// Purges through a node that does not own the key; when the purge was answered.
async fn purge_under_load(cluster: &ScriptedCluster, statement: &str, owner: usize) -> Instant {
    let other = &cluster.nodes[(owner + 2) % 3];
    let key: Value = other.explain(statement, &json!({})).await["query_key"].clone();
    cluster.neo4j.orders().set_version(2);
    // A refresh that began before this reads the old version, and is fenced.
    other.order("/admin/v1/purge", &json!({ "query_key": key })).await;
    let purged = Instant::now();
    for node in &cluster.nodes {
        let reply = node.ask(&versioned("near").1).await;
        assert_eq!(reply.value(), "2", "{}: a purged value: {reply}", node.name);
    }
    purged
}

/// A key that is asked for now and then has no near copy: each copy is one more that a purge has to reach.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_is_not_hot_is_not_copied() {
    let cluster = ScriptedCluster::start(3, lines("10m", 0.5, "10m", ""), "").await;
    let (statement, request) = versioned("cool");
    cluster.warm(&request).await;
    let owner = cluster.owner(&statement, &json!({})).await;
    for _ in 0..3 {
        let reply = cluster.nodes[(owner + 1) % 3].ask(&request).await;
        assert!(reply.is_hit(), "{reply}");
    }
    assert_eq!(near_hits(&cluster).await, 0.0);
}
