//! F29: results that are too large to store or to pass on. Other clients are not delayed, and waiters for a large
//! result do not wait for each other. `memory.rs` checks the memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;

use super::{ask, assert_nothing_stored, counted, crowd, one_node, slowest};
use crate::support::cluster::Cluster;
use crate::support::{http, say};

/// Twenty clients that each ask for their own keys until the end. Returns the time of each answer.
async fn twenty_others(cluster: &Cluster, round: usize, stop: Arc<AtomicBool>) -> Vec<Duration> {
    let next = Arc::new(AtomicUsize::new(round * 1_000_000));
    let addr = cluster.nodes[0].addrs.client;
    let clients = (0..20).map(|_| {
        let (next, stop) = (Arc::clone(&next), Arc::clone(&stop));
        tokio::spawn(async move {
            let mut took = Vec::new();
            while !stop.load(Ordering::Relaxed) {
                let k = next.fetch_add(1, Ordering::Relaxed);
                let reply =
                    http::ask(addr, &http::query("RETURN $k AS k", &json!({ "k": k }))).await.unwrap();
                assert_eq!(reply.value(), k);
                took.push(reply.took);
            }
            took
        })
    });
    let clients: Vec<_> = clients.collect();
    let mut took = Vec::new();
    for client in clients {
        took.extend(client.await.unwrap());
    }
    took.sort();
    took
}

fn p(share: usize, sorted: &[Duration]) -> u128 {
    sorted[(sorted.len() * share / 100).min(sorted.len() - 1)].as_millis()
}

/// F29: 100 MB are refused at the pass-through limit, and 20 clients with other keys do not feel it.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_hundred_megabytes_are_refused_and_delay_nobody() {
    let cluster = one_node("ttl = \"10m\"", "").await;
    let stop = Arc::new(AtomicBool::new(false));
    let (alone, ()) = tokio::join!(twenty_others(&cluster, 1, Arc::clone(&stop)), async {
        // tidy: the time that the test measures
        tokio::time::sleep(Duration::from_secs(1)).await;
        stop.store(true, Ordering::Relaxed);
    });
    stop.store(false, Ordering::Relaxed);
    let large = "UNWIND range(1, 100) AS i RETURN i, reduce(s = 'F29 x', n IN range(1, 18) | s + s) AS blob";
    let began = Instant::now();
    let (beside, replies) = tokio::join!(twenty_others(&cluster, 2, Arc::clone(&stop)), async {
        let replies = crowd(&cluster, large, 5).await;
        stop.store(true, Ordering::Relaxed);
        replies
    });
    let took = began.elapsed();
    for reply in &replies {
        assert_eq!(reply.status, 413, "{reply}");
        assert_eq!(reply.json()["errors"][0]["code"], "Hopcache.ClientError.ResultTooLarge", "{reply}");
    }
    assert_eq!(cluster.proxy.runs("F29 x"), 1, "one for all five");
    assert!(counted(&cluster, "hopcache_origin_errors_total", "too_large").await >= 1.0);
    let connection = cluster.proxy.seen("F29 x")[0].connection;
    assert!(!cluster.proxy.is_open(connection), "the client does not read the rest");
    say(&format!(
        "F29: 125 MB refused after {} ms; 20 others' misses: alone {} with p50 {} p99 {} max {} ms, beside it {} with p50 {} p99 {} max {} ms",
        took.as_millis(),
        alone.len(),
        p(50, &alone),
        p(99, &alone),
        p(100, &alone),
        beside.len(),
        p(50, &beside),
        p(99, &beside),
        p(100, &beside)
    ));
    assert!(p(99, &beside) < 2_000, "others waited: p99 {} ms", p(99, &beside));
    assert_eq!(ask(&cluster, "RETURN 'F29 after' AS what").await.status, 202);
}

/// F29: a result over `entry.max_bytes` answers all its waiters and is not kept. Afterwards each request runs for
/// itself, and none waits for another.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_is_too_large_to_store_is_passed_on_and_does_not_queue_its_waiters() {
    let cluster = one_node("ttl = \"10m\"\nmax_bytes = \"256KiB\"", "").await;
    let statement = "RETURN reduce(s = 'F29 y', n IN range(1, 17) | s + s) AS blob";
    let second = Duration::from_secs(1);
    cluster.proxy.delay_runs("F29 y", second);
    let together = crowd(&cluster, statement, 10).await;
    assert_eq!(cluster.proxy.runs("F29 y"), 1);
    for reply in &together {
        assert_eq!(reply.value().as_str().unwrap().len(), 5 << 17);
        assert!(!reply.header("cache-status").contains("stored"), "{}", reply.head);
        assert!(reply.header("cache-status").contains("detail=too-large"), "{}", reply.head);
    }
    let after = crowd(&cluster, statement, 10).await;
    assert!(after.iter().all(|reply| reply.value().as_str().unwrap().len() == 5 << 17));
    assert_eq!(cluster.proxy.runs("F29 y"), 11, "each for itself");
    say(&format!(
        "F29: 655 KB over a limit of 256 KiB, run of 1,000 ms: 10 waiters by one run, slowest {} ms; then 10 runs, slowest {} ms",
        slowest(&together).as_millis(),
        slowest(&after).as_millis()
    ));
    assert!(slowest(&after) < second * 5, "one waited for the other: {:?}", slowest(&after));
    assert_nothing_stored(&cluster).await;
}
