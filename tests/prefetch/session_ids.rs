//! Issue 7, bad input: session ids of 128 bytes of anything, and one byte more; more sessions than a node remembers
//! (F36). Hits are answered as usual while all of them are observed, and no id is a label, a log line or an answer.
//!
//! `HOPCACHE_TEST_SESSIONS`: the number of sessions in a crowd (5,000; 1,000,000 takes a quarter of an hour in a debug
//! build). A node learns from a random part of a crowd. Crowds come until the node has learned from more sessions than
//! it remembers.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::accounting::balanced;
use super::social_graph::{in_session, learning_node, successors, sum};
use crate::support::http::{self, Connection, Reply};
use crate::support::{distribution, say, size, until};

const WAIT_MAX: Duration = Duration::from_secs(20);
/// Longest id.
const ID_BYTES: usize = 128;
/// Sessions that one node remembers.
const SESSIONS_KEPT: f64 = 4_096.0;
/// The memory for sessions, and as much again for a debug build's allocator.
const MEMORY_BYTES: u64 = 96 << 20;
const CLIENTS: usize = 16;
/// A node passes on about 800 observations a second, so it needs at least six seconds.
const CROWDS_PATIENCE: Duration = Duration::from_secs(40);

/// The same as `in_session`, with any bytes.
fn by_bytes(session: &[u8], statement: &str, parameters: &Value) -> Arc<[u8]> {
    let request = in_session("\u{1}", statement, parameters);
    let at = request.iter().position(|byte| *byte == 1).unwrap();
    [&request[..at], session, &request[at + 1..]].concat().into()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_id_is_128_bytes_of_anything_and_not_one_more() {
    let cluster = learning_node().await;
    let node = &cluster.nodes[0];
    // Every byte that a header's value may have, and the name that must be visible nowhere.
    let bytes: Vec<u8> = (0x21..=0xFF).filter(|byte| *byte != 0x7F).chain(*b" \t").collect();
    let mut ids: Vec<Vec<u8>> =
        bytes.chunks(ID_BYTES - 12).map(|some| [b"canary-7f3a:", some].concat()).collect();
    ids.iter_mut().for_each(|id| id.resize(ID_BYTES, 0xE9));
    ids.push(b"\xFF".repeat(ID_BYTES));
    // Without an id, the session is that of the client's address.
    ids.push(Vec::new());
    for (place, id) in ids.iter().enumerate() {
        for (step, statement) in ["RETURN $k AS first", "RETURN $k AS second"].into_iter().enumerate() {
            let reply = node.ask(&by_bytes(id, statement, &json!({ "k": 1_000 * (place + 1) }))).await;
            assert_eq!(reply.status, 202, "id {place}, step {step}: {reply}");
        }
    }
    until("each is a session of its own, and teaches", WAIT_MAX, async || {
        sum(&cluster, "hopcache_observations_total", "\"learned\"").await >= ids.len() as f64
            && sum(&cluster, "hopcache_sessions", "").await >= ids.len() as f64
    })
    .await;
    for id in [b"x".repeat(ID_BYTES + 1), b"\xFF".repeat(4_000)] {
        let reply = node.ask(&by_bytes(&id, "RETURN 1 AS one", &json!({}))).await;
        assert_eq!(reply.status, 400, "{reply}");
        let message = reply.json()["errors"][0]["message"].as_str().unwrap().to_lowercase();
        assert!(message.contains("hopcache-session") && message.contains("128"), "{message}");
    }
    let metrics = String::from_utf8(node.admin("/metrics").await.unwrap().body).unwrap();
    let outputs = [metrics, node.log(), successors(node, "").await.to_string()];
    assert!(outputs.iter().all(|text| !text.contains("canary-7f3a")), "an id is kept as a keyed hash only");
    balanced(&cluster.nodes).await;
}

async fn series(cluster: &crate::support::cluster::Cluster) -> BTreeSet<String> {
    let text = String::from_utf8(cluster.nodes[0].admin("/metrics").await.unwrap().body).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    lines.filter_map(|line| Some(line.rsplit_once(' ')?.0.to_owned())).collect()
}

/// How long each of these sessions waited for its one answer, a hit.
async fn crowd(client: SocketAddr, sessions: Range<usize>, statement: &'static str) -> Vec<Duration> {
    let sessions = Arc::new(Mutex::new(sessions));
    let mut clients = JoinSet::new();
    for _ in 0..CLIENTS {
        let sessions = Arc::clone(&sessions);
        clients.spawn(async move {
            let mut connection = Connection::open(client).await.unwrap();
            let mut took = Vec::new();
            loop {
                let next = sessions.lock().unwrap().next();
                let Some(number) = next else { return took };
                let name = format!("session {number} {}", "x".repeat(90));
                let reply: Reply = connection.ask(&in_session(&name, statement, &json!({}))).await.unwrap();
                assert!(reply.is_hit(), "{reply}");
                took.push(reply.took);
            }
        });
    }
    clients.join_all().await.into_iter().flatten().collect()
}

/// Each session asks once for the same answer, which is a hit from the second on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_sessions_than_are_remembered_cost_bounded_memory_and_no_hit() {
    let sessions = size("HOPCACHE_TEST_SESSIONS", 5_000);
    let cluster = learning_node().await;
    let node = &cluster.nodes[0];
    let statement = "RETURN 'many sessions' AS text";
    assert_eq!(node.ask(&in_session("first", statement, &json!({}))).await.status, 202);
    let (before, rss_before) = (series(&cluster).await, node.resident_bytes());
    let (client, began) = (node.addrs.client, Instant::now());
    let observed = async |words: &[&str]| {
        let mut observed = 0.0;
        for word in words {
            let labels = format!("outcome=\"{word}\"");
            observed += node.metric("hopcache_observations_total", &labels).await.unwrap_or(0.0);
        }
        observed
    };
    let mut took = Vec::new();
    // Each session asks once, so the passed-on observations are of as many sessions.
    while observed(&["sent"]).await - observed(&["refused"]).await < SESSIONS_KEPT * 1.1 {
        assert!(began.elapsed() < CROWDS_PATIENCE, "of {} too few were learned from", took.len());
        took.extend(crowd(client, took.len()..took.len() + sessions, statement).await);
    }
    let (elapsed, asked) = (began.elapsed(), took.len());
    until("each request was observed once", WAIT_MAX, async || {
        let all = observed(&["sent", "dropped", "crowded", "too_long", "unreached"]).await;
        (all - asked as f64 - 1.0).abs() < 0.5
    })
    .await;
    let (crowded, dropped) = (observed(&["crowded"]).await, observed(&["dropped", "refused"]).await);
    let remembered = sum(&cluster, "hopcache_sessions", "").await;
    assert!(remembered <= SESSIONS_KEPT, "{remembered}");
    // The proof that there were more sessions than a node remembers.
    assert!(
        remembered >= SESSIONS_KEPT * 0.99,
        "{remembered} of {asked}, {crowded} crowded, {dropped} dropped"
    );
    let rss = node.resident_bytes();
    assert!(rss < rss_before + MEMORY_BYTES, "{} MiB, {} MiB before", rss >> 20, rss_before >> 20);
    assert_eq!(before, series(&cluster).await, "the same series for any session names");
    assert_eq!(cluster.proxy.runs("many sessions"), 1, "observing causes no run");
    balanced(&cluster.nodes).await;
    let slow = http::ask(client, &in_session("last", statement, &json!({}))).await.unwrap().took;
    say(&format!(
        "F36: {asked} sessions in {elapsed:?}, {remembered} remembered, {crowded} crowded out, {dropped} observations dropped, resident {} -> {} MiB; hits {}; one alone {slow:?}",
        rss_before >> 20,
        rss >> 20,
        distribution(&took).split(" of ").next().unwrap_or_default(),
    ));
}
