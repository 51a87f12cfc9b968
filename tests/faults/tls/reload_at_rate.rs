//! F53, must-show 3 of issue 15: the certificate of three nodes changes again and again under a steady rate of requests
//! over TLS. No request and no handshake fails.
//!
//! | variable | asks for |
//! |---|---|
//! | `HOPCACHE_TEST_RELOAD_SECONDS` | a longer load (default 5) |
//! | `HOPCACHE_TEST_RELOAD_PER_S` | another rate (default 500) |

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::authority::{Authority, Pair, TlsClient, in_file, shown};
use crate::support::http;
use crate::support::load::{Load, Way, percentile_ms};
use crate::support::scripted_cluster::{Lines, ScriptedCluster};
use crate::support::{say, size, until};

const ANN: (&str, &str) = ("ann", "secret");
const KEYS: usize = 8;
/// So connections are opened all the time: 50 a second with 500 requests.
const REQUESTS_PER_CONNECTION: usize = 10;

fn requests() -> Vec<Arc<[u8]>> {
    let request = |k| {
        let body = json!({"statement": "RETURN $k AS k", "parameters": {"k": format!("{k}")}}).to_string();
        http::post("/db/neo4j/query/v2", &http::basic(ANN.0, ANN.1), &body)
    };
    (0..KEYS).map(request).collect()
}

/// Puts a new pair in the old one's place, and waits until every node shows it to new connections.
async fn change(pair: &Pair, next: &Pair, (clients, tls): (&[SocketAddr], &TlsClient)) {
    pair.replace_with(next);
    let is_new = in_file(next);
    for addr in clients {
        until("the new certificate is used", Duration::from_secs(20), async || {
            shown(&tls.connect(*addr).await.expect("a handshake")) == is_new
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f53_certificates_change_under_a_rate_of_requests_without_an_error() {
    let (seconds, per_s) = (size("HOPCACHE_TEST_RELOAD_SECONDS", 5), size("HOPCACHE_TEST_RELOAD_PER_S", 500));
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::new(dir.path(), "authority");
    let pair = authority.server(dir.path(), "node");
    let node = format!("drain = \"2s\"\nclient_tls = {}", pair.toml());
    let lines = Lines { node: &node, origin: "", entry: "ttl = \"10m\"" };
    let cluster = ScriptedCluster::start(&[ANN], Duration::ZERO, lines).await;
    let clients: Vec<_> = cluster.nodes.iter().map(|node| node.addrs.client).collect();
    let tls = authority.tls_client(rustls::ALL_VERSIONS, &[]);
    let way = Way { tls: Some(tls.clone()), requests_per_connection: REQUESTS_PER_CONNECTION };
    let (began, mut changes) = (Instant::now(), 0);
    let load = Load::start_by(&way, &clients, &requests(), per_s);
    while changes < 2 || began.elapsed() < Duration::from_secs(seconds) {
        let next = authority.server(dir.path(), "next");
        change(&pair, &next, (&clients, &tls)).await;
        changes += 1;
    }
    let samples = load.stop().await;
    let took_s = began.elapsed().as_secs_f64();
    let is_error = |sample: &&crate::support::load::Sample| {
        sample.reply.as_ref().map_or(true, |reply| reply.status != 202 || reply.value() != ANN.0)
    };
    let errors = samples.iter().filter(is_error).count();
    let connections = cluster.metric("hopcache_tls_handshakes_total", "listener=\"client\"").await;
    let all: Vec<_> = samples.iter().collect();
    say(&format!(
        "F53: {} requests in {took_s:.1} s ({:.0}/s) on {connections} connections, {changes} changes of the certificate on each of {} nodes, {errors} errors; P50 {:.2} P99 {:.2} ms",
        samples.len(),
        samples.len() as f64 / took_s,
        clients.len(),
        percentile_ms(&all, 50.0),
        percentile_ms(&all, 99.0),
    ));
    let first = samples.iter().find(is_error);
    assert_eq!(errors, 0, "the first one: {first:?}");
    for node in &cluster.nodes {
        let used = node.metric("hopcache_tls_reloads_total", "listener=\"client\",outcome=\"used\"").await;
        assert!(used >= Some(1.0), "{}: {used:?}", node.name);
    }
}
