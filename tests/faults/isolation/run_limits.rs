//! `maxExecutionTime`: a client's limit for a run reaches Neo4j on every path, and is no other client's limit.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use crate::support::http::{self, Reply};
use crate::support::scripted_cluster::{Lines, ScriptedCluster};
use crate::support::{say, until};

/// Far above the clients' limit of a second and the wait for its answers.
const LINES: Lines = Lines { node: "drain = \"2s\"", origin: "timeout = \"20s\"", entry: "ttl = \"10m\"" };
/// A limit of a second, as long again for a slot or another's run, and a second: the longest wait for an answer.
const WAIT_MAX: Duration = Duration::from_secs(6);

fn request(statement: &str, limit_s: Option<u32>, headers: &str) -> Arc<[u8]> {
    let body = match limit_s {
        Some(limit_s) => json!({"statement": statement, "maxExecutionTime": limit_s}),
        None => json!({ "statement": statement }),
    };
    let headers = format!("{}{headers}", http::basic("ann", "secret"));
    http::post("/db/neo4j/query/v2", &headers, &body.to_string())
}

async fn cluster() -> ScriptedCluster {
    let cluster = ScriptedCluster::start(&[("ann", "secret")], Duration::ZERO, LINES).await;
    cluster.neo4j.orders().hold("SLOW");
    cluster
}

fn send(addr: SocketAddr, request: Arc<[u8]>) -> tokio::task::JoinHandle<Reply> {
    tokio::spawn(async move { http::ask(addr, &request).await.expect("an answer") })
}

/// Neo4j's own failure, with its status. Of a statement that may write nobody knows whether its time was enough.
fn assert_late(reply: &Reply, may_write: bool) {
    let code = if may_write {
        "Hopcache.ClientError.OriginTimedOut"
    } else {
        "Neo.ClientError.Transaction.TransactionTimedOutClientConfiguration"
    };
    assert_eq!(reply.json()["errors"][0]["code"], code, "{reply}");
    assert_eq!(reply.status, if may_write { 504 } else { 400 }, "{reply}");
    assert!(reply.header("retry-after").is_empty(), "{reply}");
    assert!(reply.took < WAIT_MAX, "{reply}");
}

/// A miss at its owner and behind a forward, `no-cache`, a bypass and a write.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_takes_no_longer_than_its_client_allows_on_any_path() {
    let cluster = cluster().await;
    for (path, statement, headers) in [
        ("a miss", "RETURN 'SLOW miss' AS x", ""),
        ("no-cache", "RETURN 'SLOW anew' AS x", "cache-control: no-cache\r\n"),
        ("no-store", "RETURN 'SLOW passing' AS x", "cache-control: no-store\r\n"),
        ("volatile", "RETURN 'SLOW volatile' AS x, rand() AS r", ""),
        ("a write", "CREATE (n:SLOW) RETURN 'SLOW write' AS x", ""),
    ] {
        for (place, node) in cluster.nodes.iter().enumerate() {
            // Each node gets another key, so with three keys at least one request is forwarded.
            let statement = statement.replace(" AS x", &format!(" + '{place}' AS x"));
            let reply = http::ask(node.addrs.client, &request(&statement, Some(1), headers)).await.unwrap();
            assert_late(&reply, matches!(path, "volatile" | "a write"));
            let runs = cluster.neo4j.orders().came(&statement);
            assert_eq!(runs.len(), 1, "{path}");
            let told_ms = runs[0].timeout_ms.unwrap_or(i64::MAX);
            assert!(told_ms <= 1_000, "{path}: Neo4j got the limit {told_ms} ms");
            say(&format!(
                "{path} at node {place}: Neo4j got the limit {told_ms} ms, answered after {:?}",
                reply.took
            ));
        }
    }
}

/// A request that joins a run with another client's shorter limit gets its own run after that limit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shared_run_is_not_cut_short_by_one_clients_limit() {
    let cluster = cluster().await;
    let statement = "RETURN 'SLOW for some' AS x";
    let addr = cluster.nodes[0].addrs.client;
    let orders = cluster.neo4j.orders();
    let hasty = send(addr, request(statement, Some(1), ""));
    until("the hasty client's run", Duration::from_secs(5), async || orders.count("for some") == 1).await;
    // At the same node and at another one, so that forwards and flights are shared.
    let patient: Vec<_> =
        cluster.nodes.iter().map(|node| send(node.addrs.client, request(statement, None, ""))).collect();
    assert_late(&hasty.await.unwrap(), false);
    until("a run without the limit", Duration::from_secs(5), async || orders.count("for some") == 2).await;
    let told_ms = orders.came("for some")[1].timeout_ms;
    assert!(told_ms.is_some_and(|told_ms| told_ms > 10_000), "Neo4j got the limit {told_ms:?} ms");
    // Another client with a short limit joins it, and waits no longer than its limit.
    assert_late(&send(addr, request(statement, Some(1), "")).await.unwrap(), false);
    orders.release();
    for reply in patient {
        assert_eq!(reply.await.unwrap().status, 202);
    }
    assert_eq!(orders.count("for some"), 2, "one run for all of them");
}
