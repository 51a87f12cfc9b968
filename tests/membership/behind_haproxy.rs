//! Nodes behind the shipped HAProxy configuration die, hang or leave during a request (F10, F12). Every client is
//! answered, and no write is carried out twice.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::bolt_proxy::Trouble;
use crate::support::cluster::{Cluster, OwnLabel, Plan, at_neo4j};
use crate::support::haproxy::Haproxy;
use crate::support::http::{self, Connection, Reply};
use crate::support::{say, until, value_within};

const WAIT_MAX: Duration = Duration::from_secs(20);
const READ: &str = "RETURN 'balanced' AS b";

fn read() -> Arc<[u8]> {
    http::query(READ, &json!({}))
}

fn write(label: &OwnLabel) -> Arc<[u8]> {
    http::query(&format!("CREATE (n:{}) RETURN 1 AS n", label.0), &json!({}))
}

/// How often the write was carried out.
async fn carried_out(label: &OwnLabel) -> u64 {
    let counted = at_neo4j(&format!("MATCH (n:{}) RETURN count(n) AS n", label.0)).await;
    counted.value().as_u64().expect("a count")
}

/// Asks once more if a kept connection was closed without an answer, as curl and most HTTP libraries do.
async fn ask_as_curl(kept: &mut Connection, haproxy: &Haproxy, request: &[u8]) -> (Reply, bool) {
    match kept.ask(request).await {
        Ok(reply) => (reply, false),
        Err(_) => (http::ask(haproxy.addr, request).await.expect("an answer"), true),
    }
}

/// A connection through the balancer that has carried a request.
async fn used_connection(haproxy: &Haproxy) -> Connection {
    let mut kept = Connection::open(haproxy.addr).await.unwrap();
    assert_eq!(kept.ask(&read()).await.unwrap().value(), "balanced");
    kept
}

/// The node that runs something at the origin.
async fn busy_node(cluster: &Cluster) -> usize {
    value_within("a node runs it", WAIT_MAX, async || {
        for (place, node) in cluster.nodes.iter().enumerate() {
            if node.metric("hopcache_origin_in_flight", "").await == Some(1.0) {
                return Some(place);
            }
        }
        None
    })
    .await
}

/// F10: SIGKILL during a write that Neo4j has carried out, on a connection that has carried a read: 502, the connection
/// stays, and HAProxy does not send the write again. By default HAProxy closes such a connection without an answer
/// (haproxy#2375).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_whose_node_dies_is_carried_out_once() {
    let label = OwnLabel::new("Balanced");
    let mut cluster = Cluster::start().await;
    let haproxy = Haproxy::before(&cluster.nodes).await;
    let mut kept = used_connection(&haproxy).await;
    cluster.proxy.trouble(&label.0, Trouble::StallAfter(0), 1);
    let request = write(&label);
    let asking = async {
        let asked = ask_as_curl(&mut kept, &haproxy, &request).await;
        (asked, kept)
    };
    let killing = async {
        until("Neo4j has carried it out", WAIT_MAX, async || carried_out(&label).await == 1).await;
        let place = busy_node(&cluster).await;
        cluster.nodes[place].kill();
        place
    };
    let (((reply, sent_again), mut kept), place) = tokio::join!(asking, killing);
    let times = carried_out(&label).await;
    say(&format!(
        "F10: {} killed under a write: answered {} ({}), carried out {times} time(s), {} run(s)",
        cluster.nodes[place].name,
        reply.status,
        if sent_again { "closed without an answer, sent again" } else { "connection kept" },
        cluster.proxy.runs(&label.0)
    ));
    assert_eq!(times, 1, "the write was carried out {times} times");
    assert_eq!((reply.status, sent_again), (502, false), "{reply}");
    assert_eq!(kept.ask(&read()).await.expect("the connection is kept").value(), "balanced");
}

/// F10: a node is dead and no probe has found it yet. Requests go to another node, because no byte of them was sent.
/// The same holds on connections that have carried a request.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_comes_after_a_nodes_death_goes_to_another() {
    const ASKED: usize = 12;
    let mut cluster = Cluster::start().await;
    let haproxy = Haproxy::before(&cluster.nodes).await;
    let mut kept = used_connection(&haproxy).await;
    cluster.nodes[1].kill();
    for _ in 0..ASKED {
        let reply = kept.ask(&read()).await.expect("an answer");
        assert_eq!(reply.status, 202, "{reply}");
        let reply = http::ask(haproxy.addr, &read()).await.expect("an answer");
        assert_eq!(reply.status, 202, "{reply}");
    }
    let log = haproxy.log();
    assert!(log.contains("Server nodes/node-b is DOWN"), "no request met the dead node: {log}");
    say(&format!("F10: a node killed, {} asked at once: all 202", 2 * ASKED));
}

/// F10: a stopped node keeps its connections. Its requests wait until it goes on. Once its probes have failed, the
/// other nodes answer all new requests.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hung_node_gets_nothing_new() {
    const ASKED: usize = 30;
    let cluster = Cluster::start().await;
    let haproxy = Haproxy::before(&cluster.nodes).await;
    let mut connections = Vec::new();
    for _ in 0..ASKED {
        connections.push(used_connection(&haproxy).await);
    }
    cluster.nodes[1].signal("STOP");
    let begun = Instant::now();
    let asking = connections
        .into_iter()
        .map(|mut kept| tokio::spawn(async move { kept.ask(&read()).await.expect("an answer").status }));
    let asking: Vec<_> = asking.collect();
    until("its probes have failed", WAIT_MAX, async || {
        haproxy.log().contains("Server nodes/node-b is DOWN, reason: Layer7 timeout")
    })
    .await;
    let out = begun.elapsed();
    for _ in 0..ASKED {
        assert_eq!(http::ask(haproxy.addr, &read()).await.unwrap().status, 202, "it is out by now");
    }
    let waiting = asking.iter().filter(|asking| !asking.is_finished()).count();
    assert!((1..=ASKED / 2).contains(&waiting), "{waiting} of {ASKED} came to the stopped node");
    cluster.nodes[1].signal("CONT");
    for each in asking {
        assert_eq!(each.await.unwrap(), 202, "answered once the node goes on");
    }
    say(&format!(
        "F10: a node stopped: out after {} ms, {waiting} of {ASKED} waited for it and were answered 202 when it went on",
        out.as_millis()
    ));
}

/// F12: a leaving node gets no new requests, and its own are not cut: a write that takes longer than the node listens.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_leaving_node_has_is_not_cut() {
    let label = OwnLabel::new("Leaving");
    let mut cluster = Cluster::of(Plan { drain: "16s", ..Plan::default() }).await;
    let haproxy = Haproxy::before(&cluster.nodes).await;
    let mut kept = used_connection(&haproxy).await;
    // It listens for 2 s more; then three probes and more, were they not answered, until the run ends.
    cluster.proxy.delay_runs(&label.0, Duration::from_secs(6));
    let request = write(&label);
    let asking = tokio::spawn(async move { kept.ask(&request).await });
    let place = busy_node(&cluster).await;
    cluster.nodes[place].signal("TERM");
    let name = cluster.nodes[place].name.clone();
    let (mut others, mut slowest) = (0, Duration::ZERO);
    while !asking.is_finished() {
        let reply = http::ask(haproxy.addr, &read()).await.expect("an answer");
        assert_eq!(reply.status, 202, "{reply}");
        (others, slowest) = (others + 1, slowest.max(reply.took));
    }
    let reply = asking.await.unwrap().expect("an answer");
    let status = cluster.nodes[place].exit(WAIT_MAX).await;
    say(&format!(
        "F12: {name} left under a write: answered {} after {} ms, {others} others asked meanwhile all 202 ({} ms at most), exit {:?}",
        reply.status,
        reply.took.as_millis(),
        slowest.as_millis(),
        status.code()
    ));
    assert_eq!((reply.status, status.code()), (202, Some(0)), "{reply}");
    let log = haproxy.log();
    assert!(log.contains(&format!("Server nodes/{name} is DOWN")), "{log}");
    assert_eq!(carried_out(&label).await, 1);
}
