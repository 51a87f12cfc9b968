//! F12: a node leaves under faults. Under load: `tests/membership/leaving.rs`.

use std::time::{Duration, Instant};

use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::support::cluster::{Cluster, Plan};
use crate::support::http::{self, Reply};
use crate::support::{say, until, value_within};

const WAIT_MAX: Duration = Duration::from_secs(10);
/// A busy machine sees a process' end later by up to this time.
const SLACK: Duration = Duration::from_secs(2);

fn says_close(reply: &Reply) -> bool {
    reply.header("connection").eq_ignore_ascii_case("close")
}

/// F12: clients with kept connections get `Connection: close` before the node closes anything.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leaving_node_says_so_on_kept_connections() {
    let mut cluster = Cluster::of(Plan { started: 1, seeded: 1, drain: "8s", ..Plan::default() }).await;
    let request = http::query("RETURN 'kept' AS what", &json!({}));
    let mut stream = http::connect(cluster.nodes[0].addrs.client).await.unwrap();
    assert!(!says_close(&http::exchange(&mut stream, &request).await.unwrap()));
    cluster.nodes[0].signal("TERM");
    until("readyz says 503", WAIT_MAX, async || {
        cluster.nodes[0].admin("/readyz").await.unwrap().status == 503
    })
    .await;
    let reply = http::exchange(&mut stream, &request).await.unwrap();
    assert_eq!(reply.value(), "kept");
    assert!(says_close(&reply), "{reply}");
    let fresh = cluster.nodes[0].ask(&request).await;
    assert_eq!(fresh.value(), "kept", "new connections are served on");
    assert_eq!(cluster.nodes[0].exit(Duration::from_secs(8) + SLACK).await.code(), Some(0));
}

/// One node with a client that never reads its 3 MB, and with a flight that hangs at a hanging Neo4j.
async fn hanging(drain: &'static str) -> (Cluster, Vec<TcpStream>) {
    let cluster = Cluster::of(Plan { started: 1, seeded: 1, drain, ..Plan::default() }).await;
    let addr = cluster.nodes[0].addrs.client;
    let mut never_reads = http::connect(addr).await.unwrap();
    let large = http::query("RETURN range(1, 500000) AS numbers, 'never read' AS what", &json!({}));
    never_reads.write_all(&large).await.unwrap();
    let answered = cluster
        .proxy
        .wait_until("never read", WAIT_MAX, |runs| runs.first().is_some_and(|run| run.answered.is_some()));
    assert!(answered.await, "the large result was not read from Neo4j");
    until("the large result's lease is gone", WAIT_MAX, async || {
        cluster.redis.keys("hopcache:*:l").is_empty()
    })
    .await;

    cluster.proxy.delay_runs("hangs", Duration::from_secs(120));
    let mut waits = http::connect(addr).await.unwrap();
    waits.write_all(&http::query("RETURN 'hangs' AS what", &json!({}))).await.unwrap();
    assert!(cluster.proxy.wait_until("hangs", WAIT_MAX, |runs| !runs.is_empty()).await, "no run");
    assert_eq!(cluster.redis.keys("hopcache:*:l").len(), 1, "the flight holds its lease");
    (cluster, vec![never_reads, waits])
}

/// F12, F26, F31: work that does not end is abandoned in time and logged, and its lease is given back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn neither_a_hung_neo4j_nor_a_client_that_never_reads_holds_up_the_exit() {
    let (mut cluster, clients) = hanging("4s").await;
    cluster.proxy.stall();
    cluster.nodes[0].signal("TERM");
    let signalled_at = Instant::now();
    let status = cluster.nodes[0].exit(Duration::from_secs(4) + SLACK).await;
    say(&format!(
        "F12: hung flight and silent reader, drain 4 s: gone after {} ms",
        signalled_at.elapsed().as_millis()
    ));
    let log = cluster.nodes[0].log();
    assert_eq!(status.code(), Some(0), "{log}");
    assert!(log.contains("leaving before everything has ended"), "{log}");
    assert!(cluster.redis.keys("hopcache:*:l").is_empty(), "a lease was left behind");
    drop(clients);
}

/// A second signal means now.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_signal_ends_it_at_once() {
    let (mut cluster, clients) = hanging("60s").await;
    cluster.nodes[0].signal("TERM");
    until("readyz says 503", WAIT_MAX, async || {
        cluster.nodes[0].admin("/readyz").await.unwrap().status == 503
    })
    .await;
    cluster.nodes[0].signal("TERM");
    let signalled_at = Instant::now();
    let status = cluster.nodes[0].exit(Duration::from_secs(1) + SLACK).await;
    say(&format!(
        "second SIGTERM: gone after {} ms, exit {:?}",
        signalled_at.elapsed().as_millis(),
        status.code()
    ));
    assert_eq!(status.code(), Some(1), "it did not end in good order, and says so");
    drop(clients);
}

/// F12, F17: a hanging store does not delay the exit either. The lease lapses by itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_redis_and_a_hung_neo4j_do_not_hold_up_the_exit() {
    let (mut cluster, clients) = hanging("4s").await;
    cluster.proxy.stall();
    cluster.redis.signal("STOP");
    cluster.nodes[0].signal("TERM");
    let signalled_at = Instant::now();
    let status = cluster.nodes[0].exit(Duration::from_secs(4) + SLACK).await;
    let took = signalled_at.elapsed();
    cluster.redis.signal("CONT");
    let log = cluster.nodes[0].log();
    assert_eq!(status.code(), Some(0), "{log}");
    assert!(log.contains("the store did not take these leases back"), "{log}");
    let lapsed = Instant::now();
    let is_free = || cluster.redis.keys("hopcache:*:l").is_empty().then_some(());
    value_within("the lease lapses", Duration::from_secs(30), async || is_free()).await;
    say(&format!(
        "F12: Redis stopped, Neo4j hung, drain 4 s: gone after {} ms; the lease was gone {} ms after Redis went on",
        took.as_millis(),
        lapsed.elapsed().as_millis()
    ));
    drop(clients);
}
