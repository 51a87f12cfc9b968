//! F29: many large results at a time. Their memory is bounded, hits go on, and a refused request gets 503.
//!
//! `HOPCACHE_TEST_LARGE_RESULTS` (12) clients ask for as many different results of
//! `HOPCACHE_TEST_LARGE_RESULT_MB` (20) MB each.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::cluster::{Cluster, Plan};
use crate::support::pace::Slowness;
use crate::support::{http, say, size};

/// Bound of a node's memory: large results (`RESULT_ROOM_BYTES`), its copies (`node.memory`) + 20 %, and an idle debug
/// build.
const ROOM_MIB: u64 = 384 + 64;
const MEMORY_MIB: u64 = 256 * 12 / 10;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_large_results_at_once_neither_fill_memory_nor_stop_hits() {
    let (clients, megabytes) =
        (size("HOPCACHE_TEST_LARGE_RESULTS", 12), size("HOPCACHE_TEST_LARGE_RESULT_MB", 20));
    let cluster = Cluster::of(Plan { started: 1, seeded: 1, ..Plan::default() }).await;
    let node = &cluster.nodes[0];
    let rss_mib = || node.resident_bytes() >> 20;
    let hit = http::query("RETURN 'a hit beside large results' AS what", &json!({}));
    node.ask(&hit).await;
    let most = Slowness::of(&[node.addrs.client]).await.bound(Duration::from_secs(2));
    let before = rss_mib();

    // Rows of a kilobyte from a parameter: neither Neo4j nor the proxy keeps them.
    let statement = format!("UNWIND range(1, {}) AS x RETURN $text AS text, $k AS k", megabytes * 1_000);
    let text = "t".repeat(1_000);
    let crowd =
        (0..clients).map(|k| (node.addrs.client, http::query(&statement, &json!({"k": k, "text": text}))));
    let crowd = tokio::spawn(http::crowd(crowd.collect()));

    let (done, mut peak, mut slowest, mut hits) = (AtomicBool::new(false), before, Duration::ZERO, 0);
    let watch = async {
        while !done.load(Ordering::Relaxed) {
            let asked = Instant::now();
            let reply = node.ask(&hit).await;
            assert!(reply.is_hit(), "{reply}");
            slowest = slowest.max(asked.elapsed());
            hits += 1;
            peak = peak.max(rss_mib());
            // tidy: poll interval
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let finish = async {
        let replies = crowd.await.unwrap();
        done.store(true, Ordering::Relaxed);
        replies
    };
    let (replies, ()) = tokio::join!(finish, watch);

    let (mut whole, mut refused) = (0, 0);
    for reply in replies {
        let reply = reply.unwrap();
        match reply.status {
            202 => {
                assert!(reply.body.len() > megabytes * 1_000_000, "{} bytes", reply.body.len());
                whole += 1;
            }
            503 => {
                assert!(!reply.header("retry-after").is_empty(), "{}", reply.head);
                refused += 1;
            }
            _ => panic!("{}", reply.head),
        }
    }
    let after = rss_mib();
    say(&format!(
        "F29: {clients} clients, {megabytes} MB each: {whole} served whole, {refused} got 503; RSS {before} MiB before, {peak} at the peak, {after} after; {hits} hits meanwhile, the slowest {} ms",
        slowest.as_millis()
    ));
    assert!(whole > 0, "nobody was served");
    // Proof of the fault: all results together, records and bodies, would have had this size.
    let runs = cluster.proxy.runs("$text AS text");
    // On a busy machine a client may be refused before its run.
    assert!(runs + refused >= clients && 2 * runs > clients, "{runs} runs reached Neo4j, {refused} got 503");
    assert!(peak < before + ROOM_MIB + MEMORY_MIB, "{peak} MiB");
    assert!(hits > 10, "{hits} hits");
    assert!(slowest < most, "a hit took {slowest:?}, {most:?} at most");
    // A result that is too large to keep leaves its place when it has been read, or the next would wait.
    let reply = node.ask(&http::query(&statement, &json!({"k": clients + 1, "text": text}))).await;
    assert_eq!(reply.status, 202, "{}", reply.head);
}
