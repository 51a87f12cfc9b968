//! Bookmarks over both fronts and three nodes: a client that has a write's bookmark reads the write, and a session that only
//! reads keeps hitting.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::drivers::NEO4J;
use crate::drivers::install::Driver;
use crate::drivers::raw::Raw;
use crate::support::bolt_bytes::structure;
use crate::support::cluster::{Cluster, OwnLabel, Plan, at_neo4j};
use crate::support::http::{self, Reply};
use crate::support::{environment, size};

/// A prefetch would make some of the counted misses hits.
const PLAN: fn() -> Plan = || Plan { prefetch: None, ..Plan::default() };

/// A read with bookmarks over HTTP.
fn read(statement: &str, bookmarks: &Value) -> Arc<[u8]> {
    let body = json!({"statement": statement, "bookmarks": bookmarks}).to_string();
    http::post("/db/neo4j/query/v2", &http::login(), &body)
}

fn bookmarks_of(reply: &Reply) -> Value {
    let bookmarks = reply.json()["bookmarks"].clone();
    assert_eq!(bookmarks.as_array().map(Vec::len), Some(1), "{reply}");
    bookmarks
}

/// `HOPCACHE_TEST_BOOKMARKS=5000` for more writes (I4; INTERFACE section 2b).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_has_a_writes_bookmark_reads_the_write() {
    let _alone = NEO4J.write().await;
    let label = OwnLabel::new("Bookmarks");
    let cluster = Cluster::of(PLAN()).await;
    let mut bolt = Vec::new();
    for node in &cluster.nodes {
        bolt.push(Raw::logged_on(node).await);
    }
    let text = format!("MATCH (n:{} {{id: 1}}) RETURN n.at % 100 AS at", label.0);
    for round in 1..=size("HOPCACHE_TEST_BOOKMARKS", 40) {
        let write = format!("MERGE (n:{} {{id: 1}}) SET n.at = {round}", label.0);
        let bookmarks = bookmarks_of(&at_neo4j(&write).await);
        let (expected, place) = (i64::try_from(round % 100).unwrap(), |turn: usize| (round + turn) % 3);
        // The first front that hears of the write runs, the other one finds the entry.
        for front in [round % 2, round % 2 + 1] {
            let is_first = front == round % 2;
            let (at, status, next) = if front % 2 == 0 {
                let reply = cluster.nodes[place(0)].ask(&read(&text, &bookmarks)).await;
                (reply.value(), reply.header("cache-status").to_owned(), bookmarks_of(&reply)[0].clone())
            } else {
                ask_over_bolt(&mut bolt[place(1)], &text, &bookmarks).await
            };
            assert_eq!(at, json!(expected), "{status}");
            assert_eq!(status.contains("; hit"), !is_first, "{status}");
            assert!(next.as_str().unwrap().starts_with("FB:"), "{next}");
        }
        let third = cluster.nodes[place(2)].ask(&read(&text, &bookmarks)).await;
        assert!(third.is_hit() && third.value() == json!(expected), "stored for all: {third}");
    }
}

/// The value, the text of `Cache-Status` and the bookmark of an auto-commit read.
async fn ask_over_bolt(raw: &mut Raw, statement: &str, bookmarks: &Value) -> (Value, String, Value) {
    raw.run_after(statement, bookmarks[0].as_str().unwrap()).await;
    let mut replies = Vec::new();
    for _ in 0..3 {
        replies.push(structure(&raw.reply().await).unwrap());
    }
    let [(0x70, _), (0x71, record), (0x70, end)] = &replies[..] else { panic!("{replies:?}") };
    let status = end[0]["hopcache"].as_str().unwrap().to_owned();
    (record[0][0].clone(), status, end[0]["bookmark"].clone())
}

/// Must-show: a session that reads only, with chained bookmarks, keeps hitting, as a client without bookmarks does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_only_reads_keeps_hitting() {
    let _alone = NEO4J.write().await;
    let tag = OwnLabel::new("Session");
    let cluster = Cluster::of(PLAN()).await;
    let mut bookmarks = json!([]);
    for round in 0..3 {
        for place in 0..9 {
            let text = format!("RETURN 'http {} {place}'", tag.0);
            let reply = cluster.nodes[(round + place) % 3].ask(&read(&text, &bookmarks)).await;
            assert_eq!(reply.is_hit(), round > 0, "round {round}: {reply}");
            bookmarks = bookmarks_of(&reply);
        }
    }
    let password = environment("HOPCACHE_TEST_NEO4J_PASSWORD");
    let uri = format!("neo4j://{}", cluster.nodes[1].addrs.bolt);
    let seen = Driver::newest("python").run("bookmarks", &[&uri, "neo4j", &password, &tag.0]);
    assert_eq!(seen.len(), 3 * 9);
    for line in &seen {
        let (round, status, bookmarks): (usize, String, usize) = serde_json::from_str(line).unwrap();
        assert_eq!((status.contains("; hit"), bookmarks), (round > 0, 1), "{line}");
    }
}
