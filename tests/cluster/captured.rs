//! Change data capture (`freshness.cdc = "auto"`), over Bolt: a write past Hopcache ends only what it has touched.
//!
//! Neo4j's Community edition captures nothing. So the proxy before a real Neo4j answers `db.cdc.current` and `db.cdc.query`, as
//! Neo4j's documentation shows their rows, for transactions whose numbers are Neo4j's own.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use crate::cluster::origin_restored::scene::{fill, newest};
use crate::cluster::proved::{ask, is_proved, proved_anew, until_accounted};
use crate::support::cluster::{Cluster, Plan};
use crate::support::own_neo4j::OwnNeo4j;
use crate::support::{say, value_within};

/// Several looks and reports, on a busy machine.
const WAIT_MAX: Duration = Duration::from_secs(60);

const BUSY: &str = "MATCH (n:Busy {k: 1}) RETURN n.v AS v";
const QUIET: &str = "MATCH (n:Quiet {q: 1}) RETURN n.w AS w";

/// What the server has captured.
#[derive(Default)]
struct Captured {
    /// The last change that everybody may go on from.
    current: u64,
    /// The number of a transaction, and its event.
    rows: Vec<(u64, Value)>,
}

/// The proxy answers for the server.
fn capture_at(cluster: &Cluster) -> Arc<Mutex<Captured>> {
    let captured = Arc::new(Mutex::new(Captured::default()));
    let at = Arc::clone(&captured);
    cluster.proxy.answer_runs("db.cdc.current", &["id"], move |_| {
        vec![json!([at.lock().unwrap().current.to_string()])]
    });
    let at = Arc::clone(&captured);
    cluster.proxy.answer_runs("db.cdc.query", &["txId", "event"], move |params| {
        let from: u64 = params["from"].as_str().unwrap().parse().unwrap();
        let rows = &at.lock().unwrap().rows;
        rows.iter().filter(|(id, _)| *id > from).map(|(id, event)| json!([id, event])).collect()
    });
    captured
}

/// A value of a busy node has changed.
fn changed(from: i64, to: i64) -> Value {
    let state = |v: i64| json!({"labels": ["Busy"], "properties": {"k": 1, "v": v}});
    json!({"eventType": "n", "operation": "u", "state": {"before": state(from), "after": state(to)}})
}

/// Somebody writes past Hopcache. Its row is there first, under the number that Neo4j gives it: nobody else writes.
async fn write_past(neo4j: &OwnNeo4j, captured: &Mutex<Captured>, to: i64, row: Option<Value>) -> u64 {
    let id = newest(neo4j).await.1 + 1;
    captured.lock().unwrap().rows.extend(row.map(|row| (id, row)));
    let mut client = neo4j.client().await.unwrap();
    let text = "MATCH (n:Busy {k: 1}) SET n.v = $to";
    client.write("neo4j", text, &json!({ "to": to })).await.unwrap().unwrap();
    assert_eq!(newest(neo4j).await.1, id);
    captured.lock().unwrap().current = id;
    id
}

/// Both reads are in memory and proved, at every node.
async fn prove_all(cluster: &Cluster) {
    for node in 0..cluster.nodes.len() {
        proved_anew(cluster, node, QUIET).await;
        proved_anew(cluster, node, BUSY).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn captured_changes_end_only_what_they_touch() {
    let neo4j = OwnNeo4j::start_plain().await;
    fill(&neo4j).await;
    let cluster = Cluster::of(Plan {
        upstream: Some(neo4j.bolt),
        entry: "ttl = \"10m\"",
        freshness: "max_life = \"1d\"\ncdc = \"auto\"",
        prefetch: None,
        ..Plan::default()
    })
    .await;
    let captured = capture_at(&cluster);
    prove_all(&cluster).await;
    // The database's owner begins to watch when it has given its first answer. Its first look knows no change from before, so a
    // transaction that this look finds may have touched anything.
    let id = write_past(&neo4j, &captured, 1, Some(changed(0, 1))).await;
    until_accounted(&cluster, QUIET, id).await;
    prove_all(&cluster).await;
    let quiet_runs = cluster.proxy.runs(QUIET);
    for value in 2..=4 {
        let id = write_past(&neo4j, &captured, value, Some(changed(value - 1, value))).await;
        until_accounted(&cluster, QUIET, id).await;
        for node in 0..cluster.nodes.len() {
            assert_eq!(
                ask(&cluster, node, BUSY).await.value(),
                json!(value),
                "node {node} ends what is touched"
            );
            let reply = value_within("a proof of what is not touched", WAIT_MAX, async || {
                Some(ask(&cluster, node, QUIET).await).filter(is_proved)
            })
            .await;
            assert!(reply.is_hit() && reply.value() == json!(0), "{reply}");
        }
    }
    assert_eq!(cluster.proxy.runs(QUIET), quiet_runs, "what no write touches is not read again");
    let questions = cluster.proxy.runs("db.cdc.query");
    say(&format!(
        "3 writes past Hopcache, {questions} questions for changes, {quiet_runs} runs of the read beside"
    ));
    assert!(questions >= 3);

    // A transaction without a row: nobody knows what it has touched.
    let id = write_past(&neo4j, &captured, 5, None).await;
    until_accounted(&cluster, QUIET, id).await;
    for node in 0..cluster.nodes.len() {
        let reply = ask(&cluster, node, QUIET).await;
        assert!(reply.is_hit() && !is_proved(&reply), "{reply}");
    }
}
