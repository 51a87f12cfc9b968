//! I6: writes are never collapsed. What they have written is told as it becomes visible, and what has written nothing ends nothing.

use std::time::Duration;

use serde_json::json;

use super::written::{begin, bolt, end};
use crate::support::cluster::{Cluster, OwnLabel, Plan, at_neo4j};
use crate::support::{http, until};

/// Prefetches would hide which reads are hits.
const PLAN: fn() -> Plan = || Plan { prefetch: None, ..Plan::default() };

/// The value at each node over HTTP, and how many of them were hits.
async fn values(cluster: &Cluster, statement: &str) -> (Vec<i64>, usize) {
    let (mut values, mut hits) = (Vec::new(), 0);
    for node in &cluster.nodes {
        let reply = http::ask(node.addrs.client, &http::query(statement, &json!({}))).await.unwrap();
        values.push(reply.value().as_i64().unwrap());
        hits += usize::from(reply.is_hit());
    }
    (values, hits)
}

/// The value is in every node's memory, or near it.
async fn warm(cluster: &Cluster, statement: &str) -> i64 {
    values(cluster, statement).await;
    let (values, hits) = values(cluster, statement).await;
    assert_eq!(hits, cluster.nodes.len(), "{statement}");
    values[0]
}

/// CASES G6: whoever has seen a row of `CALL { … } IN TRANSACTIONS` gets nothing older at any node, whether rows are pulled one by one
/// or come by themselves.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_is_told_before_the_row_that_shows_it() {
    const BATCHES: i64 = 24;
    let cluster = Cluster::of(PLAN()).await;
    let label = OwnLabel::new("Batches");
    at_neo4j(&format!("CREATE (:{} {{at: 0}})", label.0)).await;
    let reading = format!("MATCH (n:{}) RETURN n.at AS at", label.0);
    warm(&cluster, &reading).await;
    let batches = format!(
        "UNWIND range(1, {BATCHES}) AS at CALL (at) {{ UNWIND range(1, 100000) AS work WITH at, sum(work) AS sum \
         MATCH (n:{}) SET n.at = at }} IN TRANSACTIONS OF 1 ROW RETURN at",
        label.0
    );
    let mut writer = bolt(cluster.nodes[0].addrs.bolt).await;
    writer.open("neo4j", &batches).await.unwrap();
    let (mut shown, mut older) = (0, Vec::new());
    for pulled in [1, 1, 1, -1] {
        writer.pull(pulled).await.unwrap();
        while let Some(row) = writer.next_row().await.unwrap() {
            shown = row[0].as_i64().unwrap();
            let (read, _) = values(&cluster, &reading).await;
            older.extend(read.into_iter().filter(|read| *read < shown).map(|read| (shown, read)));
        }
    }
    assert_eq!((shown, older), (BATCHES, Vec::new()), "shown, and read at some node");
}

/// CASES G5 and G8: reads, and what Neo4j refuses, end nothing, whoever sends them. A write that is rolled back ends reads of keys.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_has_written_nothing_ends_nothing_but_reads_of_keys() {
    let cluster = Cluster::of(PLAN()).await;
    let label = OwnLabel::new("Refused");
    at_neo4j(&format!("CREATE (:{} {{at: 7}})", label.0)).await;
    let reading = format!("MATCH (n:{}) RETURN n.at AS at", label.0);
    let keys = |n: usize| {
        let key = format!("key{n}Of{}", label.0);
        let known = format!(
            "CALL db.propertyKeys() YIELD propertyKey WHERE propertyKey = '{key}' RETURN count(propertyKey) AS known"
        );
        (format!("UNWIND [1, 0] AS x CREATE (:{} {{{key}: 1 / x}})", label.0), known)
    };
    warm(&cluster, &reading).await;
    let (_, known) = keys(0);
    assert_eq!(warm(&cluster, &known).await, 0);
    let mut client = bolt(cluster.nodes[0].addrs.bolt).await;
    for (database, statement) in [
        ("neo4j", "USE neo4j RETURN 1/0"),
        ("neo4j", r"RETURN 1/0 AS \u0041"),
        ("system", "SHOW USERS YIELD user RETURN 1/0"),
        ("system", "CALL nope()"),
        ("neo4j", "CALL nope()"),
        ("neo4j", "CALL db.info() YIELD name RETURN 1/0"),
    ] {
        client.write(database, statement, &json!({})).await.unwrap().unwrap_err();
        let body = json!({ "statement": statement }).to_string();
        let asked = http::post(&format!("/db/{database}/query/v2"), &http::login(), &body);
        http::ask(cluster.nodes[1].addrs.client, &asked).await.unwrap();
        for cached in [&reading, &known] {
            assert_eq!(values(&cluster, cached).await.1, 3, "{statement} ends {cached}");
        }
    }
    // Over Bolt and HTTP: a statement that fails, a transaction that is rolled back, and one whose client leaves.
    for way in 0..5 {
        let (writing, known) = keys(way);
        let undone = writing.replace("[1, 0]", "[1]");
        assert_eq!(warm(&cluster, &known).await, 0);
        undo(&cluster, way, (&writing, &undone)).await;
        let found = || async { values(&cluster, &known).await.0 };
        if way == 4 {
            until("the key is known", Duration::from_secs(20), async || found().await == [1; 3]).await;
        }
        assert_eq!(found().await, [1; 3], "{way}");
        assert_eq!(values(&cluster, &reading).await, (vec![7; 3], 3), "{way}");
    }
}

/// A write that makes a key, and is undone: `failing` by Neo4j, `undone` by its client.
async fn undo(cluster: &Cluster, way: usize, (failing, undone): (&str, &str)) {
    let addrs = &cluster.nodes[0].addrs;
    let parameters = json!({});
    match way {
        0 => drop(bolt(addrs.bolt).await.write("neo4j", failing, &parameters).await.unwrap().unwrap_err()),
        1 => {
            let reply = http::ask(addrs.client, &http::query(failing, &parameters)).await.unwrap();
            assert!(reply.json()["errors"][0]["code"].is_string(), "{reply}");
        }
        2 => {
            let id = begin(cluster, 0, &json!({ "statement": undone })).await;
            assert_eq!(end(cluster, 1, "DELETE", &id).await.status, 200);
        }
        _ => {
            let mut client = bolt(addrs.bolt).await;
            client.begin(json!({"db": "neo4j"})).await.unwrap().unwrap();
            client.run_with(undone, &parameters, json!({})).await.unwrap().unwrap();
            if way == 3 {
                client.roll_back().await.unwrap().unwrap();
            }
        }
    }
}

/// I6: 100 identical CREATEs at the same time through three nodes make 100 nodes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_creates_make_a_hundred_nodes() {
    let label = OwnLabel::new("Creates");
    let cluster = Cluster::start().await;
    let request = http::query(&format!("CREATE (n:{}) RETURN 1 AS made", label.0), &json!({}));
    let clients = cluster.clients();
    let crowd = (0..100).map(|client| (clients[client % 3], request.clone())).collect();
    for reply in http::crowd(crowd).await {
        let reply = reply.unwrap();
        assert_eq!(reply.status, 202, "{reply}");
        assert!(reply.header("cache-status").contains("detail=write"), "{reply}");
    }
    let made = at_neo4j(&format!("MATCH (n:{}) RETURN count(n) AS made", label.0)).await;
    assert_eq!(made.value(), 100);
    assert_eq!(cluster.proxy.runs(&label.0), 100);
    assert!(cluster.redis.keys("hopcache:*:[el]").is_empty(), "a write left something in the store");
}
