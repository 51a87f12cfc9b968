//! F45: one principal sends statements and parameters of megabytes. Its text is walked over once, at the node that it
//! asked, and another principal's hits keep their pace.
//!
//! `HOPCACHE_TEST_F45_SECONDS` asks for longer phases (default 2).

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::scripted_cluster::{Lines, ScriptedCluster};
use crate::support::http::{self, Connection};
use crate::support::load::{Load, percentile_ms};
use crate::support::{say, size};

const LINES: Lines = Lines { node: "drain = \"2s\"", origin: "", entry: "ttl = \"10m\"" };
/// A statement just within the bound of 1 MiB, of as many tokens as it can have.
const STATEMENT_BYTES: usize = (1 << 20) - 64;
const PARAMETER_BYTES: usize = 4_000_000;
const HITS_PER_S: u64 = 200;
const HOSTILE_CONNECTIONS: usize = 8;
/// From the issue: the bound on another client's effect on the P99 of hits.
const RATIO_MAX: f64 = 3.0;
const P99_MS_MAX: f64 = 10.0;
/// The machine is shared, so others may disturb a phase. The bound has to hold in one of this many phases.
const ROUNDS: usize = 3;

async fn cluster() -> ScriptedCluster {
    ScriptedCluster::start(&[("ann", "secret"), ("bob", "secret")], Duration::ZERO, LINES).await
}

/// A read of `bytes`, another one for each number.
fn long_statement(number: usize, bytes: usize) -> String {
    let mut text = format!("RETURN [{number}");
    while text.len() < bytes {
        text.push_str(",1");
    }
    text.push_str("] AS x");
    text
}

/// The request causes no run: its cost is its reading, and the hop to the owner.
fn if_cached(user: &str, body: &Value, content_type: &str) -> Arc<[u8]> {
    let headers = format!("{}cache-control: only-if-cached\r\n", http::basic(user, "secret"));
    let request = http::post("/db/neo4j/query/v2", &headers, &body.to_string());
    if content_type == "application/json" {
        return request;
    }
    let text = String::from_utf8(request.to_vec()).unwrap();
    let own_type = format!("content-type: {content_type}");
    text.replacen("content-type: application/json", &own_type, 1).into_bytes().into()
}

fn statements() -> Vec<Arc<[u8]>> {
    let bodies = (0..4).map(|number| json!({"statement": long_statement(number, STATEMENT_BYTES)}));
    bodies.map(|body| if_cached("bob", &body, "application/json")).collect()
}

fn parameters() -> Vec<Arc<[u8]>> {
    let value = json!({"$type": "Integer", "_value": "7"});
    let list = vec![value; PARAMETER_BYTES / 34];
    let body =
        json!({"statement": "RETURN size($l) AS x", "parameters": {"l": {"$type": "List", "_value": list}}});
    vec![if_cached("bob", &body, "application/vnd.neo4j.query")]
}

/// Sends these requests on eight connections until the end. Counts those that were read to their end, and those that
/// got 429 or 503.
struct Hostile {
    lanes: JoinSet<()>,
    is_over: Arc<AtomicBool>,
    read: Arc<AtomicU64>,
    asked_to_wait: Arc<AtomicU64>,
}

impl Hostile {
    fn start(addrs: &[SocketAddr], requests: &[Arc<[u8]>]) -> Self {
        let (mut lanes, is_over) = (JoinSet::new(), Arc::new(AtomicBool::new(false)));
        let (read, asked_to_wait) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        for lane in 0..HOSTILE_CONNECTIONS {
            let (addr, request) = (addrs[lane % addrs.len()], Arc::clone(&requests[lane % requests.len()]));
            let (is_over, read, to_wait) =
                (Arc::clone(&is_over), Arc::clone(&read), Arc::clone(&asked_to_wait));
            lanes.spawn(async move {
                let mut connection = Connection::open(addr).await.unwrap();
                while !is_over.load(Ordering::Relaxed) {
                    let reply = connection.ask(&request).await.unwrap();
                    match reply.status {
                        // The node read it, and has no entry.
                        504 => read.fetch_add(1, Ordering::Relaxed),
                        429 | 503 => to_wait.fetch_add(1, Ordering::Relaxed),
                        status => panic!("{status}: {reply}"),
                    };
                }
            });
        }
        Self { lanes, is_over, read, asked_to_wait }
    }

    async fn stop(mut self) -> (u64, u64) {
        self.is_over.store(true, Ordering::Relaxed);
        while let Some(lane) = self.lanes.join_next().await {
            lane.unwrap();
        }
        (self.read.load(Ordering::Relaxed), self.asked_to_wait.load(Ordering::Relaxed))
    }
}

/// The P99 of ann's hits at these nodes.
async fn p99_ms_of_hits(clients: &[SocketAddr], hits: &[Arc<[u8]>]) -> f64 {
    let load = Load::start(clients, hits, HITS_PER_S);
    // tidy: the length of a phase
    tokio::time::sleep(Duration::from_secs(size("HOPCACHE_TEST_F45_SECONDS", 2))).await;
    let samples = load.stop().await;
    assert!(samples.iter().all(|sample| sample.reply().is_hit()), "a load of hits");
    percentile_ms(&samples.iter().collect::<Vec<_>>(), 99.0)
}

/// F45: P99 of hits, quiet and beside megabytes on eight connections, in the same run.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn megabytes_of_one_principal_do_not_slow_down_anothers_hits() {
    let cluster = cluster().await;
    let clients: Vec<_> = cluster.nodes.iter().map(|node| node.addrs.client).collect();
    let hits: Vec<_> = (0..8)
        .map(|number| {
            let body = json!({"statement": format!("RETURN {number} AS hit")}).to_string();
            http::post("/db/neo4j/query/v2", &http::basic("ann", "secret"), &body)
        })
        .collect();
    for (addr, request) in clients.iter().flat_map(|addr| hits.iter().map(move |request| (addr, request))) {
        assert_eq!(http::ask(*addr, request).await.unwrap().status, 202);
    }
    for (what, requests) in [("statements of 1 MB", statements()), ("typed parameters of 4 MB", parameters())]
    {
        let mut seen = Vec::new();
        for _ in 0..ROUNDS {
            let quiet_ms = p99_ms_of_hits(&clients, &hits).await;
            let hostile = Hostile::start(&clients[..1], &requests);
            let beside_ms = p99_ms_of_hits(&clients, &hits).await;
            let (read, asked_to_wait) = hostile.stop().await;
            let ratio = beside_ms / quiet_ms;
            say(&format!(
                "F45: {what} on {HOSTILE_CONNECTIONS} connections ({read} read, {asked_to_wait} refused): P99 of hits {quiet_ms:.2} ms quiet, {beside_ms:.2} ms beside, {ratio:.1} x"
            ));
            assert!(read > 0, "nothing hostile was read");
            seen.push((quiet_ms, beside_ms));
            if beside_ms <= P99_MS_MAX.max(RATIO_MAX * quiet_ms) {
                break;
            }
        }
        let is_kept = |(quiet_ms, beside_ms): &(f64, f64)| *beside_ms <= P99_MS_MAX.max(RATIO_MAX * quiet_ms);
        assert!(seen.iter().any(is_kept), "{what}: P99 in ms, quiet and beside: {seen:?}");
    }
}

/// F45: the text of a request is walked over once in the whole cluster, wherever its key lives; a remembered request's
/// never again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_is_lexed_once_in_the_cluster() {
    let cluster = cluster().await;
    let lexed = async || {
        let mut counts = Vec::new();
        for node in &cluster.nodes {
            counts.push(node.metric("hopcache_statements_lexed_total", "").await.unwrap_or(0.0));
        }
        counts
    };
    let login = http::basic("bob", "secret");
    let mut owners = [false; 3];
    for number in 0..24 {
        let statement = match number % 3 {
            0 => long_statement(number, STATEMENT_BYTES),
            1 => long_statement(number, 3_000),
            _ => format!("RETURN  /* {number} */  {number}  AS   x"),
        };
        let body = json!({ "statement": statement }).to_string();
        let request = http::post("/db/neo4j/query/v2", &login, &body);
        let before = lexed().await;
        let reply = http::ask(cluster.nodes[0].addrs.client, &request).await.unwrap();
        assert_eq!(reply.status, 202, "{reply}");
        let after = lexed().await;
        let walks: Vec<_> = after.iter().zip(before).map(|(after, before)| after - before).collect();
        assert_eq!(walks, [1.0, 0.0, 0.0], "{}", reply.header("cache-status"));
        let status = reply.header("cache-status");
        owners[["node-a", "node-b", "node-c"].iter().position(|name| status.starts_with(name)).unwrap()] =
            true;
        let answer = http::ask(cluster.nodes[0].addrs.client, &request).await.unwrap();
        assert!(answer.is_hit(), "{number}");
    }
    assert_eq!(owners, [true; 3], "keys of every node");
}
