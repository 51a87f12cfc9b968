//! F25, I5: while Neo4j is away, credentials that one node has accepted are valid at the others too, for as long as at
//! that node. A refusal that one node gets ends the acceptance at all nodes.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use super::scripted_cluster::{Lines, ScriptedCluster};
use crate::support::http::{Reply, basic, post};
use crate::support::{say, until};

const ANN: (&str, &str) = ("ann", "the-password-of-ann");
const WAIT_MAX: Duration = Duration::from_secs(20);

fn request((user, password): (&str, &str)) -> Arc<[u8]> {
    let body = json!({"statement": "RETURN $k AS k", "parameters": {"k": "one"}}).to_string();
    post("/db/neo4j/query/v2", &basic(user, password), &body)
}

async fn start() -> ScriptedCluster {
    let lines = Lines { node: "", origin: "", entry: "ttl = \"10m\"" };
    ScriptedCluster::start(&[ANN], Duration::ZERO, lines).await
}

fn assert_nothing_shown(reply: &Reply) {
    assert!([401, 429, 503, 504].contains(&reply.status), "{reply}");
    assert!(reply.json().get("data").is_none() && reply.header("cache-status").is_empty(), "{reply}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_an_outage_each_node_serves_whom_one_of_them_believes() {
    let cluster = start().await;
    let reply = cluster.nodes[0].ask(&request(ANN)).await;
    assert_eq!(reply.value(), json!("ann"), "{reply}");
    let logons = cluster.neo4j.logons_refused();
    cluster.neo4j.stop();
    for node in &cluster.nodes {
        // The first request that asks Neo4j finds it gone.
        assert_nothing_shown(&node.ask(&request(("nobody", "at-all"))).await);
    }
    let mut served = Vec::new();
    for node in &cluster.nodes {
        let reply = node.ask(&request(ANN)).await;
        served.push(reply.status);
        if reply.status == 202 {
            assert!(reply.is_hit(), "{reply}");
        }
        // The same user with another password is refused on every node.
        assert_nothing_shown(&node.ask(&request((ANN.0, "a-guess"))).await);
    }
    say(&format!("in an outage, the client that one of three nodes has met gets {served:?}"));
    assert_eq!(served, [202, 202, 202], "all of them from the one entry");
    assert_eq!(cluster.neo4j.logons_refused(), logons, "nobody was asked");
}

/// Threats: revoked credentials. One node gets the refusal. The others, which may accept the credentials for up to 30
/// s, learn of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_at_one_node_ends_the_acceptance_at_all() {
    let cluster = start().await;
    let [first, second, third] = [0, 1, 2].map(|place| &cluster.nodes[place]);
    for node in [first, second] {
        assert_eq!(node.ask(&request(ANN)).await.status, 202);
        assert!(node.ask(&request(ANN)).await.is_hit());
    }
    cluster.neo4j.change_password(ANN.0, "another-password");
    assert_eq!(third.ask(&request(ANN)).await.status, 401, "it asks Neo4j");
    for node in [first, second] {
        let what = format!("{} hears of the refusal", node.name);
        // Far below the 20 s after which a node asks by itself.
        until(&what, Duration::from_secs(5), async || node.ask(&request(ANN)).await.status == 401).await;
    }
    // If Neo4j goes away now, no node serves the old password.
    cluster.neo4j.stop();
    until("Neo4j is missed", WAIT_MAX, async || {
        third.ask(&request(("nobody", "at-all"))).await.status == 503
    })
    .await;
    for node in &cluster.nodes {
        assert_nothing_shown(&node.ask(&request(ANN)).await);
    }
}
