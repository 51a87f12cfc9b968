//! F36: as many sessions, texts and parameters as requests. Memory stays within its bound, and none of them becomes a
//! label.
//!
//! `HOPCACHE_TEST_NAMES`: how many of each (1,500; 1,000,000 takes about an hour in a debug build).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::task::JoinSet;

use super::{ANN, LINES, one_node};
use crate::support::http::{Connection, basic, post};
use crate::support::scripted_cluster::{Lines, ScriptedCluster};
use crate::support::{say, size};

const CLIENTS: usize = 16;
/// `node.memory`.
const MEMORY_BYTES: u64 = 16 << 20;
/// Further memory: remembered requests (64 MiB), statements (80 MiB), and I9's fifth.
const BESIDE_BYTES: u64 = (64 + 80 + 16) << 20;

/// Every series, without its value.
async fn series(scene: &ScriptedCluster) -> BTreeSet<String> {
    let text = String::from_utf8(scene.nodes[0].admin("/metrics").await.unwrap().body).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    lines.filter_map(|line| Some(line.rsplit_once(' ')?.0.to_owned())).collect()
}

fn request(number: usize) -> Arc<[u8]> {
    let body = json!({"statement": format!("RETURN $p{number} AS c{number}"), "parameters": {format!("p{number}"): number}});
    let headers = format!("{}hopcache-session: session-{number}\r\n", basic(ANN.0, ANN.1));
    post("/db/neo4j/query/v2", &headers, &body.to_string())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_without_end_are_bounded_in_memory_and_are_no_labels() {
    let count = size("HOPCACHE_TEST_NAMES", 1_500);
    let lines = Lines { node: "drain = \"2s\"\nmemory = \"16MiB\"", ..LINES };
    let scene = one_node(Duration::ZERO, lines).await;
    assert_eq!(scene.nodes[0].ask(&request(usize::MAX >> 1)).await.status, 202);
    let (before, rss_before) = (series(&scene).await, scene.nodes[0].resident_bytes());
    let (next, began) = (Arc::new(AtomicUsize::new(0)), Instant::now());
    let mut clients = JoinSet::new();
    for _ in 0..CLIENTS {
        let (next, client) = (Arc::clone(&next), scene.client());
        clients.spawn(async move {
            let mut connection = Connection::open(client).await.unwrap();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= count {
                    return;
                }
                let reply = connection.ask(&request(number)).await.unwrap();
                assert_eq!(reply.status, 202, "{reply}");
            }
        });
    }
    clients.join_all().await;
    let (after, rss) = (series(&scene).await, scene.nodes[0].resident_bytes());
    assert!(scene.neo4j.runs() >= count as u64, "each was a name of its own");
    assert_eq!(before, after, "the same series for any queries");
    assert!(rss < rss_before + MEMORY_BYTES + BESIDE_BYTES, "{} MiB", rss >> 20);
    let entry_bytes = scene.metric("hopcache_entry_bytes", "").await;
    assert!(entry_bytes <= MEMORY_BYTES as f64 * 1.2, "{entry_bytes}");
    say(&format!(
        "F36: {count} sessions, texts and parameters in {:?}: resident {} -> {} MiB, {} copies of {:.1} MiB, {} series before and after",
        Duration::from_secs(began.elapsed().as_secs()),
        rss_before >> 20,
        rss >> 20,
        scene.metric("hopcache_entries", "").await,
        entry_bytes / f64::from(1 << 20),
        after.len()
    ));
}
