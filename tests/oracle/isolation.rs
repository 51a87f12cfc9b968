//! What Neo4j alone shows of a transaction that commits beside a statement: some of its changes and not others (isolation "read
//! committed"). The oracle excuses runs for this reason, and for as long as this test passes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::oracle::stage::{bolt, neo4j_bolt};
use crate::support::bolt_client::BoltClient;
use crate::support::cluster::OwnLabel;
use crate::support::say;
use crate::support::turn::Turn;

/// Nodes that one transaction changes together.
const NODES: usize = 400;
/// Until a torn read is seen. The first one comes within a second.
const WITHIN: Duration = Duration::from_secs(60);

async fn write(client: &mut BoltClient, statement: &str, parameters: &serde_json::Value) {
    client.write("neo4j", statement, parameters).await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn neo4j_alone_shows_a_transaction_in_part() {
    // Its writes go past the clusters of the tests beside it.
    let _turn = Turn::take().await;
    let own = OwnLabel::new("Isolation");
    let label = &own.0;
    let at = neo4j_bolt();
    let (mut reader, mut writer) = (bolt(at).await.unwrap(), bolt(at).await.unwrap());
    write(
        &mut writer,
        &format!("UNWIND range(1, {NODES}) AS id CREATE (:{label} {{id: id, v: 0}})"),
        &json!({}),
    )
    .await;
    let (set, read) = (
        format!("MATCH (n:{label}) SET n.v = $v"),
        format!("MATCH (n:{label}) RETURN count(DISTINCT n.v) AS values"),
    );
    let is_seen = AtomicBool::new(false);
    let began = Instant::now();
    let goes_on = || !is_seen.load(Ordering::Relaxed) && began.elapsed() < WITHIN;
    let writing = async {
        let mut turn = 0;
        while goes_on() {
            turn += 1;
            write(&mut writer, &set, &json!({ "v": turn })).await;
        }
        turn
    };
    let reading = async {
        let mut reads = 0;
        while goes_on() {
            reads += 1;
            let rows = reader.run("neo4j", &read, &json!({})).await.unwrap().unwrap().rows;
            // All nodes have one value before each write, and after it.
            is_seen.fetch_or(rows[0][0] != json!(1), Ordering::Relaxed);
        }
        reads
    };
    let (writes, reads) = tokio::join!(writing, reading);
    assert!(
        is_seen.load(Ordering::Relaxed),
        "{reads} reads beside {writes} writes of {NODES} nodes: none was torn"
    );
    say(&format!(
        "read {reads} beside {writes} writes of {NODES} nodes saw values of two transactions, at Neo4j alone"
    ));
}
