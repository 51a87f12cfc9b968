//! F25: Neo4j is gone. Stale answers within their limits and marked, otherwise 503; a breaker with one probe at a time;
//! recovery without help.

use std::collections::BTreeSet;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::json;

use super::{ask, assert_failed, counted, crowd_of, degraded, one_node, slowest, until_degraded};
use crate::support::cluster::Cluster;
use crate::support::http::{self, Reply};
use crate::support::pace::Slowness;
use crate::support::{say, until};

/// Time in which a crowd without waits is answered, on a calm machine.
const AT_ONCE: Duration = Duration::from_secs(3);
const UNREACHABLE: &str = "Hopcache.TransientError.OriginUnreachable";
const MOVES: &str = "hopcache_breaker_transitions_total";
const KEPT: &str = "RETURN 'F25 kept' AS what";
const COLD: &str = "RETURN $k AS k, 'F25 cold' AS what";
/// From the end of the absence to the node's knowing: a probe under way, a pause, a probe.
const FOUND_AGAIN: Duration = Duration::from_secs(10);

/// 200 clients: half ask for kept keys, half each for its own new key.
async fn two_hundred(cluster: &Cluster, round: usize) -> (Vec<Reply>, Vec<Reply>) {
    let requests = (0..200).map(|client| match client % 2 {
        0 => http::query(KEPT, &json!({})),
        _ => http::query(COLD, &json!({ "k": round * 200 + client })),
    });
    let replies = crowd_of(cluster, requests.collect()).await.into_iter().enumerate();
    let (kept, cold): (Vec<_>, Vec<_>) = replies.partition(|(client, _)| client % 2 == 0);
    let replies = |some: Vec<(usize, Reply)>| some.into_iter().map(|(_, reply)| reply).collect();
    (replies(kept), replies(cold))
}

/// Else the first run could still go out on a connection that is about to break, which is F28.
async fn until_all_is_cut(cluster: &Cluster) {
    until("connections that stood are cut", Duration::from_secs(5), async || {
        cluster.proxy.open_connections() == 0
    })
    .await;
}

fn is_stale(reply: &Reply) -> bool {
    let status = reply.header("cache-status");
    reply.status == 202 && status.contains("; hit; ttl=-") && status.contains("detail=stale")
}

async fn assert_shown_as_away(cluster: &Cluster) {
    assert_eq!(degraded(cluster).await, json!(["origin"]));
    assert_eq!(counted(cluster, "hopcache_degraded", "part=\"origin\"").await, 1.0);
    let admin = format!("http://{}", cluster.nodes[0].addrs.admin);
    let status = Command::new(env!("CARGO_BIN_EXE_hopcache"))
        .args(["status", "--json", "--admin-url", &admin])
        .output()
        .unwrap();
    let status_json: serde_json::Value = serde_json::from_slice(&status.stdout).unwrap();
    assert_eq!(status_json["health"]["degraded"], json!(["origin"]), "{status_json}");
}

async fn assert_found_again(cluster: &Cluster, since: Instant) -> Duration {
    // No client asks: the node finds out by itself.
    until_degraded(cluster, json!([]), FOUND_AGAIN).await;
    let found = since.elapsed();
    assert_eq!(counted(cluster, "hopcache_degraded", "part=\"origin\"").await, 0.0);
    assert!(counted(cluster, MOVES, "peer_kind=\"origin\",to=\"closed\"").await >= 1.0);
    let reply = ask(cluster, "RETURN 'F25 it is back' AS what").await;
    assert!(reply.header("cache-status").contains("; stored"), "{reply}");
    found
}

/// F25, refused: the port is closed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusing_neo4j_leaves_stale_answers_and_quick_refusals() {
    let cluster = one_node("ttl = \"2s\"\ngrace = 10.0\nttl_jitter = 0.0", "").await;
    assert_eq!(ask(&cluster, KEPT).await.value(), "F25 kept");
    cluster.proxy.refuse();
    until_all_is_cut(&cluster).await;
    assert!(tokio::net::TcpStream::connect(cluster.proxy.addr()).await.is_err(), "the fault happens");
    assert_failed(&ask(&cluster, "RETURN 'F25 first' AS what").await, 503, UNREACHABLE);
    until("the kept entries are stale", Duration::from_secs(10), async || {
        is_stale(&ask(&cluster, KEPT).await)
    })
    .await;
    let (kept, cold) = two_hundred(&cluster, 0).await;
    assert!(kept.iter().all(is_stale), "{}", kept[0]);
    cold.iter().for_each(|reply| assert_failed(reply, 503, UNREACHABLE));
    assert_failed(&ask(&cluster, "CREATE (:HcNeverThere)").await, 503, UNREACHABLE);
    assert_shown_as_away(&cluster).await;
    assert!(counted(&cluster, MOVES, "peer_kind=\"origin\",to=\"open\"").await >= 1.0);
    let back = Instant::now();
    cluster.proxy.bring_back().await.unwrap();
    let found = assert_found_again(&cluster, back).await;
    until("the stale value is refreshed", Duration::from_secs(10), async || {
        let reply = ask(&cluster, KEPT).await;
        assert_eq!(reply.status, 202, "{reply}");
        !is_stale(&reply)
    })
    .await;
    say(&format!(
        "F25 refused: 100 stale answers, slowest {} ms; 100 × 503, slowest {} ms; found again after {} ms",
        slowest(&kept).as_millis(),
        slowest(&cold).as_millis(),
        found.as_millis()
    ));
}

/// F25, silence on open connections: the first lost run starts the probes, they open the breaker, and no other request
/// waits for a run's whole time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_neo4j_that_falls_silent_is_found_out_by_the_first_run_it_loses() {
    let cluster = one_node("ttl = \"10m\"", "timeout = \"1s\"").await;
    assert_eq!(ask(&cluster, KEPT).await.value(), "F25 kept");
    // Three at the same time, so that the pool has connections which are idle when it happens.
    cluster.proxy.delay_runs("F25 cold", Duration::from_millis(300));
    let known = (0..3).map(|k| http::query(COLD, &json!({ "k": -1 - k }))).collect();
    assert!(crowd_of(&cluster, known).await.iter().all(|reply| reply.status == 202));
    let stood: BTreeSet<_> = cluster.proxy.seen("F25 cold").iter().map(|run| run.connection).collect();
    assert_eq!(stood.len(), 3);
    let most = Slowness::of(&cluster.clients()).await.bound(AT_ONCE);
    cluster.proxy.stall();
    let lost = ask(&cluster, "RETURN 'F25 lost' AS what").await;
    assert_failed(&lost, 504, "Hopcache.ClientError.OriginTimedOut");
    until_degraded(&cluster, json!(["origin"]), Duration::from_secs(15)).await;
    until("runs are refused", Duration::from_secs(15), async || {
        counted(&cluster, MOVES, "peer_kind=\"origin\",to=\"open\"").await >= 1.0
    })
    .await;
    let (kept, cold) = two_hundred(&cluster, 0).await;
    assert!(kept.iter().all(Reply::is_hit));
    cold.iter().for_each(|reply| assert_failed(reply, 503, UNREACHABLE));
    assert!(slowest(&cold) < most, "{:?}, {most:?} at most", slowest(&cold));
    // The proxy holds on to the one with the lost run, and the one on which a probe asked: it does not read while it stalls.
    until("connections that stood are closed", Duration::from_secs(5), async || {
        stood.iter().filter(|number| cluster.proxy.is_open(**number)).count() <= 2
    })
    .await;
    cluster.proxy.resume();
    assert_found_again(&cluster, Instant::now()).await;
}
