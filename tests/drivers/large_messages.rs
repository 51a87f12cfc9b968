//! D3: statements with large parameters reach Neo4j, over Bolt and over HTTP, up to `node.message_max`.

use serde_json::{Value, json};

use crate::drivers::NEO4J;
use crate::support::bolt_client::BoltClient;
use crate::support::cluster::{Cluster, OwnLabel, Plan, at_neo4j};
use crate::support::{environment, http, say};

/// As neo4j-graphrag writes them: rows with a vector each.
fn rows(count: usize, numbers: usize) -> Value {
    let row =
        |at: usize| json!({"id": at, "v": (0..numbers).map(|n| json!(n as f64 / 7.0)).collect::<Vec<_>>()});
    (0..count).map(row).collect()
}

async fn client(cluster: &Cluster) -> BoltClient {
    let mut client = BoltClient::connect(cluster.nodes[1].addrs.bolt).await.unwrap();
    client.log_on("neo4j", &environment("HOPCACHE_TEST_NEO4J_PASSWORD")).await.unwrap().unwrap();
    client
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_parameters_reach_neo4j() {
    let _writes = NEO4J.read().await;
    let label = OwnLabel::new("Large");
    let cluster = Cluster::of(Plan { prefetch: None, ..Plan::default() }).await;
    let mut client = client(&cluster).await;

    let numbers: Value = (0..350_000).map(|n| json!(f64::from(n) + 0.5)).collect();
    let sized = client.run("neo4j", "RETURN size($v) AS s", &json!({"v": numbers})).await.unwrap().unwrap();
    assert_eq!(sized.rows, [json!([350_000])], "3 MB: the cache's own way");
    let sized = client.run("neo4j", "RETURN size($v) AS s", &json!({"v": "x".repeat(20_000_000)})).await;
    let sized = sized.unwrap().unwrap();
    assert_eq!(sized.rows, [json!([20_000_000])]);
    assert!(sized.cache_status.contains("detail=too-large"), "{}", sized.cache_status);

    let write = format!("UNWIND $rows AS row CREATE (n:{} {{id: row.id}}) SET n.v = row.v", label.0);
    let written = client.write("neo4j", &write, &json!({"rows": rows(1_000, 1_536)})).await.unwrap();
    written.expect("1,000 rows of 1,536 numbers, 14 MB");
    let in_transaction = json!({"rows": rows(350, 1_536)});
    client.write_in_transaction("neo4j", &write, &in_transaction).await.unwrap().expect("in a transaction");
    let counted = format!("MATCH (n:{}) RETURN count(n) AS n", label.0);
    assert_eq!(at_neo4j(&counted).await.value(), 1_350);
    let read = client.run("neo4j", &counted, &json!({})).await.unwrap().unwrap();
    assert_eq!(read.rows, [json!([1_350])], "a write whose values nobody reads ends what its label says");

    let over_http = http::query(&write, &json!({"rows": rows(350, 1_536)}));
    assert!(over_http.len() > 5 << 20, "{} bytes", over_http.len());
    let reply = http::ask(cluster.nodes[0].addrs.client, &over_http).await.unwrap();
    assert_eq!(reply.status, 202, "{reply}");
    assert_eq!(at_neo4j(&counted).await.value(), 1_700);
    let over_http = http::query("RETURN size($v) AS s", &json!({"v": "x".repeat(5 << 20)}));
    let reply = http::ask(cluster.nodes[0].addrs.client, &over_http).await.unwrap();
    assert_eq!((reply.status, reply.value()), (202, json!(5 << 20)));
    say("D3: 20 MB of text, 14 MB and 4 MB of rows over Bolt, 8 MB of rows over HTTP: all carried out");
}

/// The bound is the operator's, and the refusal names it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_over_the_bound_is_refused_by_its_key() {
    let plan = Plan { started: 2, seeded: 2, node: "message_max = \"8MiB\"".to_owned(), ..Plan::default() };
    let cluster = Cluster::of(plan).await;
    let text = json!({"v": "x".repeat((8 << 20) + 1)});
    let mut client = client(&cluster).await;
    client.send_run_with("RETURN size($v) AS s", &text, &json!({})).await.unwrap();
    let why = client.next_row().await.unwrap_err().to_string();
    assert!(why.contains("node.message_max"), "{why}");
    let reply =
        http::ask(cluster.nodes[0].addrs.client, &http::query("RETURN size($v) AS s", &text)).await.unwrap();
    assert_eq!(reply.status, 413, "{reply}");
    assert!(reply.to_string().contains("node.message_max"), "{reply}");
}
