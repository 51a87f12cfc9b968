//! `freshness.marker`: a write past Hopcache does not hide behind an own write that changes nothing.
//!
//! Neo4j counts `SET n.v = n.v` as an update, and gives it no transaction id. Its bookmark is that of the write before it. So
//! without a marker the watcher takes the id of a foreign write for that of the own one: the control shows this.

use serde_json::{Value, json};

use crate::cluster::origin_restored::scene::{fill, newest};
use crate::cluster::proved::{ask, is_proved, proved_anew, until_accounted};
use crate::cluster::written::{bolt, write};
use crate::support::cluster::{Cluster, Plan};
use crate::support::own_neo4j::OwnNeo4j;
use crate::support::{http, say, size};

/// HTTP, Bolt, and a transaction over either.
const WAYS: usize = 4;

const READ: &str = "MATCH (n:Quiet {q: 1}) RETURN n.w AS w";
const FOREIGN: &str = "MATCH (n:Quiet {q: 1}) SET n.w = $w";
const CHANGES_NOTHING: &str = "MATCH (n:Busy {k: 1}) SET n.v = n.v";
const MARKERS: &str = "MATCH (m:HopcacheMarker) RETURN coalesce(sum(m.hopcacheWrites), 0)";

/// Looks are rare, so that a foreign and an own write nearly always fall between two of them.
async fn cluster_on(neo4j: &OwnNeo4j, marker: &'static str) -> Cluster {
    Cluster::of(Plan {
        upstream: Some(neo4j.bolt),
        entry: "ttl = \"10m\"",
        freshness: marker,
        prefetch: None,
        ..Plan::default()
    })
    .await
}

async fn at_neo4j(neo4j: &OwnNeo4j, statement: &str, parameters: &Value) -> Vec<Value> {
    let mut client = neo4j.client().await.unwrap();
    client.write("neo4j", statement, parameters).await.unwrap().unwrap().rows
}

/// Somebody writes past Hopcache, and a write through it changes nothing. Returns the ids that they took, and whether an answer of
/// before is proved when these ids are accounted for.
async fn hides(neo4j: &OwnNeo4j, cluster: &Cluster, round: usize) -> (u64, bool) {
    for node in 0..cluster.nodes.len() {
        proved_anew(cluster, node, READ).await;
    }
    let before = newest(neo4j).await.1;
    at_neo4j(neo4j, FOREIGN, &json!({ "w": round })).await;
    let turn = i64::try_from(round % WAYS).unwrap();
    write(cluster, round % 3, turn, (CHANGES_NOTHING, &json!({}))).await;
    let after = newest(neo4j).await.1;
    let mut is_hidden = false;
    until_accounted(cluster, READ, after).await;
    for node in 0..cluster.nodes.len() {
        let reply = ask(cluster, node, READ).await;
        is_hidden |= is_proved(&reply) && reply.value() != json!(round);
    }
    (after - before, is_hidden)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_foreign_write_hides_behind_no_marked_write() {
    let neo4j = OwnNeo4j::start_plain().await;
    fill(&neo4j).await;
    let rounds = size("HOPCACHE_TEST_MARKED_ROUNDS", 2) * WAYS;
    let unmarked = cluster_on(&neo4j, "max_life = \"1d\"\nwatch_interval = \"1s\"").await;
    let mut hidden = 0;
    for round in 1..=rounds {
        let (ids, is_hidden) = hides(&neo4j, &unmarked, round).await;
        assert_eq!(ids, 1, "the own write takes none");
        hidden += usize::from(is_hidden);
    }
    assert!(hidden > 0, "the control shows nothing");
    assert_eq!(at_neo4j(&neo4j, MARKERS, &json!({})).await[0][0], json!(0));
    drop(unmarked);

    let marked = cluster_on(&neo4j, "max_life = \"1d\"\nwatch_interval = \"1s\"\nmarker = true").await;
    // The first write of each node may make its marker.
    for node in 0..3 {
        write(&marked, node, 0, (CHANGES_NOTHING, &json!({}))).await;
    }
    let mut marks = at_neo4j(&neo4j, MARKERS, &json!({})).await[0][0].as_i64().unwrap();
    assert_eq!(marks, 3);
    for round in rounds + 1..=2 * rounds {
        let (ids, is_hidden) = hides(&neo4j, &marked, round).await;
        assert_eq!(ids, 2, "way {}: the own write takes one by its marker", round % WAYS);
        assert!(!is_hidden, "way {}", round % WAYS);
        marks += 1;
        assert_eq!(at_neo4j(&neo4j, MARKERS, &json!({})).await[0][0], json!(marks));
    }
    say(&format!(
        "{rounds} foreign writes behind own ones that change nothing: {hidden} hidden without a marker, 0 with"
    ));
}

/// A marker that is made is a node more; one that is counted up ends nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_marker_that_is_made_anew_ends_a_count_of_nodes() {
    const COUNT: &str = "MATCH (n) RETURN count(n)";
    const WHOLE: &str = "MATCH (n:Quiet {q: 1}) RETURN n";
    const SET: &str = "MATCH (n:Busy {k: 2}) SET n.v = $v";
    let neo4j = OwnNeo4j::start_plain().await;
    fill(&neo4j).await;
    let cluster = cluster_on(&neo4j, "max_life = \"1d\"\nmarker = true").await;
    for turn in 0..4 {
        write(&cluster, 1, turn, (SET, &json!({"v": turn}))).await;
    }
    for turn in 0..4 {
        // Its own marker is made anew at once, in the same transaction; that of node 1 is gone.
        write(&cluster, 0, turn, ("MATCH (m:HopcacheMarker) DELETE m", &json!({}))).await;
        for node in 0..3 {
            proved_anew(&cluster, node, COUNT).await;
            proved_anew(&cluster, node, WHOLE).await;
        }
        let before = ask(&cluster, 2, COUNT).await.value().as_i64().unwrap();
        write(&cluster, 1, turn, (SET, &json!({"v": 10 + turn}))).await;
        assert_eq!(
            at_neo4j(&neo4j, COUNT, &json!({})).await[0][0],
            json!(before + 1),
            "the marker of node 1"
        );
        for node in 0..3 {
            assert_eq!(
                ask(&cluster, node, COUNT).await.value(),
                json!(before + 1),
                "way {turn}, node {node}"
            );
        }
        // From now on it is there. A read of whole nodes elsewhere stays a hit.
        for node in 0..3 {
            proved_anew(&cluster, node, WHOLE).await;
        }
        let runs = cluster.proxy.runs(WHOLE);
        write(&cluster, 1, turn, ("CREATE (:Log)", &json!({}))).await;
        for node in 0..3 {
            assert!(ask(&cluster, node, WHOLE).await.is_hit(), "way {turn}, node {node}");
        }
        assert_eq!(cluster.proxy.runs(WHOLE), runs);
    }
}

/// Transactions that cannot take a marker run as ever, and failures are Neo4j's own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_marked_runs_as_without() {
    let neo4j = OwnNeo4j::start_plain().await;
    fill(&neo4j).await;
    let cluster = cluster_on(&neo4j, "marker = true").await;
    for (turn, index) in [(0, "by_http"), (1, "by_bolt"), (2, "in_bolt"), (3, "in_http")] {
        write(&cluster, 0, turn, (&format!("CREATE INDEX {index} FOR (n:Busy) ON (n.{index})"), &json!({})))
            .await;
    }
    let batches = "UNWIND range(1, 4) AS i CALL (i) { CREATE (:Batch {i: i}) } IN TRANSACTIONS OF 1 ROW";
    write(&cluster, 0, 0, (batches, &json!({}))).await;
    write(&cluster, 1, 1, (batches, &json!({}))).await;
    assert_eq!(at_neo4j(&neo4j, MARKERS, &json!({})).await[0][0], json!(0), "none of these is marked");
    assert_eq!(at_neo4j(&neo4j, "MATCH (n:Batch) RETURN count(n)", &json!({})).await[0][0], json!(8));

    // A result with rows, and more of them than a PULL takes; then one that changes nothing and counts nothing.
    let rows = "UNWIND range(1, $rows) AS i CREATE (n:Row {i: i}) RETURN n.i AS i";
    let mut client = bolt(cluster.nodes[0].addrs.bolt).await;
    let said = client.write("neo4j", rows, &json!({"rows": 20_000})).await.unwrap().unwrap();
    assert_eq!((said.rows.len(), &said.rows[19_999][0]), (20_000, &json!(20_000)));
    let reply = cluster.nodes[1].ask(&http::query(rows, &json!({"rows": 11_000}))).await;
    assert_eq!(reply.json()["data"]["values"].as_array().map(Vec::len), Some(11_000));
    assert!(reply.json()["bookmarks"][0].is_string(), "COMMIT's bookmark");
    for none in ["MATCH (n:Absent) SET n.v = 1", "MERGE (n:Busy {k: 1})"] {
        client.write("neo4j", none, &json!({})).await.unwrap().unwrap();
        assert_eq!(cluster.nodes[1].ask(&http::query(none, &json!({}))).await.status, 202);
    }
    assert_eq!(at_neo4j(&neo4j, MARKERS, &json!({})).await[0][0], json!(2));

    // A statement that fails takes nothing along, and the connection goes on.
    let fails = "MATCH (n:Busy {k: 1}) SET n.v = 1 / $zero";
    let failed = client.write("neo4j", fails, &json!({"zero": 0})).await.unwrap().unwrap_err();
    assert_eq!(failed.code, "Neo.ClientError.Statement.ArithmeticError");
    let reply = cluster.nodes[1].ask(&http::query(fails, &json!({"zero": 0}))).await;
    assert_eq!(
        reply.json()["errors"][0]["code"],
        json!("Neo.ClientError.Statement.ArithmeticError"),
        "{reply}"
    );
    client.begin(json!({"db": "neo4j"})).await.unwrap().unwrap();
    client.run_with(CHANGES_NOTHING, &json!({}), json!({})).await.unwrap().unwrap();
    client.roll_back().await.unwrap().unwrap();
    assert_eq!(at_neo4j(&neo4j, MARKERS, &json!({})).await[0][0], json!(2));
    client.write("neo4j", CHANGES_NOTHING, &json!({})).await.unwrap().unwrap();
    assert_eq!(at_neo4j(&neo4j, MARKERS, &json!({})).await[0][0], json!(3));
}
