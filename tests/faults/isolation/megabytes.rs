//! F45: a statement's text is walked over once in the cluster, however long it is. What megabytes of one principal cost
//! another one's hits is in `neighbours.rs`.

use std::time::Duration;

use serde_json::json;

use super::hostile_load::{BOB, long_statement};
use crate::support::scripted_cluster::{Lines, ScriptedCluster};
use crate::support::{http, until};

/// Longer than what a node reads, sends or seals on the task that asks. A debug build takes a second to read a megabyte, in
/// which a node on a busy machine is taken off the ring.
const LONG_BYTES: usize = 300 << 10;

const LINES: Lines = Lines { node: "drain = \"2s\"", origin: "", entry: "ttl = \"10m\"" };

/// F45: the text of a request is walked over once in the whole cluster, wherever its key lives; a remembered request's
/// never again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_is_lexed_once_in_the_cluster() {
    let cluster = ScriptedCluster::start(&[BOB], Duration::ZERO, LINES).await;
    let lexed = async || {
        let mut counts = Vec::new();
        for node in &cluster.nodes {
            counts.push(node.metric("hopcache_statements_lexed_total", "").await.unwrap_or(0.0));
        }
        counts
    };
    let login = http::basic(BOB.0, BOB.1);
    let mut owners = [false; 3];
    for number in 0..24 {
        let statement = match number % 3 {
            0 => long_statement(number, LONG_BYTES),
            1 => long_statement(number, 3_000),
            _ => format!("RETURN  /* {number} */  {number}  AS   x"),
        };
        let body = json!({ "statement": statement }).to_string();
        let request = http::post("/db/neo4j/query/v2", &login, &body);
        let before = lexed().await;
        let reply = http::ask(cluster.nodes[0].addrs.client, &request).await.unwrap();
        assert_eq!(reply.status, 202, "{reply}");
        let after = lexed().await;
        let walks: Vec<_> = after.iter().zip(before).map(|(after, before)| after - before).collect();
        assert_eq!(walks, [1.0, 0.0, 0.0], "{}", reply.header("cache-status"));
        let status = reply.header("cache-status");
        owners[["node-a", "node-b", "node-c"].iter().position(|name| status.starts_with(name)).unwrap()] =
            true;
        until("the result is stored", Duration::from_secs(30), async || {
            http::ask(cluster.nodes[0].addrs.client, &request).await.unwrap().is_hit()
        })
        .await;
    }
    assert_eq!(owners, [true; 3], "keys of every node");
}
