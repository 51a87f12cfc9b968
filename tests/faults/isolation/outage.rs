//! F25, I5: while Neo4j is away, credentials that one node has accepted are valid at the others too, for as long as at
//! that node. A refusal that one node gets ends the acceptance at all nodes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::bolt_client::BoltClient;
use crate::support::bolt_proxy::ProxiedRun;
use crate::support::cluster::Cluster;
use crate::support::http::{Reply, basic, post};
use crate::support::scripted_cluster::{Lines, ScriptedCluster};
use crate::support::{environment, say, until};

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

/// A1: Neo4j falls silent, and no node knows it yet. Bolt clients that one node has met log on at all nodes, get routing tables,
/// begin transactions and read what is cached. What needs Neo4j fails, and is counted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bolt_clients_do_not_feel_a_silent_neo4j() {
    const READ: &str = "RETURN 'felt by nobody' AS x";
    let cluster = Cluster::start().await;
    let password = environment("HOPCACHE_TEST_NEO4J_PASSWORD");
    let connect = async |node: usize| BoltClient::connect(cluster.nodes[node].addrs.bolt).await.unwrap();
    // In the outage the client names no database, so its name has to be known too.
    let read_with = async |client: &mut BoltClient, options: Value| {
        client.begin(options).await.unwrap().unwrap();
        let rows = client.run_with(READ, &json!({}), json!({})).await.unwrap().unwrap();
        client.commit().await.unwrap().unwrap();
        rows.cache_status
    };
    let read = async |client: &mut BoltClient, mode: &str| read_with(client, json!({ "mode": mode })).await;
    let mut first = connect(0).await;
    first.log_on("neo4j", &password).await.unwrap().unwrap();
    let named = json!({ "mode": "r", "db": "neo4j" });
    read_with(&mut first, named.clone()).await;
    assert!(read_with(&mut first, named).await.contains("; hit"));
    let is_answered = |runs: &[ProxiedRun]| runs.iter().any(|run| run.answered.is_some());
    assert!(
        cluster.proxy.wait_until("RETURN 1", WAIT_MAX, is_answered).await,
        "a node asks ahead for its name"
    );
    // The proxy has the answer. A cut takes it away from a node that has not read it yet: this call waits for the same answer.
    first.route().await.unwrap().unwrap();
    cluster.proxy.stall();
    cluster.proxy.cut();
    let mut clients = Vec::new();
    for node in 0..3 {
        let began = Instant::now();
        let mut client = connect(node).await;
        client.log_on("neo4j", &password).await.unwrap().unwrap();
        client.route().await.unwrap().unwrap();
        let how = read(&mut client, "r").await;
        assert!(how.contains("; hit"), "{how}");
        say(&format!("silent Neo4j: the first log-on and read at node {node} took {:?}", began.elapsed()));
        clients.push(client);
    }
    for (node, client) in clients.iter_mut().enumerate() {
        // The first call that waits for Neo4j makes the node look after it.
        let write = client.write("neo4j", "CREATE (n:Felt) DELETE n", &json!({})).await;
        let failure = write.unwrap().unwrap_err();
        assert!(failure.code.starts_with("Neo.TransientError."), "{failure:?}");
        until("the node misses Neo4j", WAIT_MAX, async || cluster.nodes[node].is_degraded("origin").await)
            .await;
        let how = read(client, "w").await;
        assert!(how.contains("; hit"), "{how}");
        let refused = connect(node).await.log_on("neo4j", "a-guess").await.unwrap().unwrap_err();
        assert!(refused.code.starts_with("Neo."), "{refused:?}");
        let metrics = cluster.nodes[node].admin("/metrics").await.unwrap().to_string();
        let counted = "hopcache_requests_total{class=\"bypass\",status=\"503\",front=\"bolt\"} ";
        assert!(metrics.contains(counted) && !metrics.contains(&format!("{counted}0")), "{metrics}");
    }
    cluster.proxy.resume();
}
