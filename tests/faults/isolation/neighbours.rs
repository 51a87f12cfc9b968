//! F45, must-show 2 of issue 15: nothing that one client does slows down another one's hits by more than 3 times or
//! 10 ms. In one run: P99 of ann's hits, quiet and beside each kind of hostile load, in turns.
//!
//! The hostile clients all load one node. Ann asks all three, so a third of her hits has its entry there.
//!
//! | variable | asks for |
//! |---|---|
//! | `HOPCACHE_TEST_NEIGHBOURS_SECONDS` | longer phases (default 2) |
//! | `HOPCACHE_TEST_NEIGHBOURS_ROUNDS` | so many rounds of each kind, also where the bound held (default 1) |
//! | `HOPCACHE_TEST_NEIGHBOURS_KINDS` | these kinds of load only (`SlowReaders,Statements`) |
//! | `HOPCACHE_TEST_NEIGHBOURS_APART` | a control: the load goes to nodes of another cluster. What it costs ann there is her machine's cores, no wait in her nodes |

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::sync::oneshot;

use super::hostile_load::{BOB, Hostile, Kind, Target};
use crate::support::authority::Authority;
use crate::support::http::{self, Connection};
use crate::support::load::{Load, Sample, Way, percentile_ms};
use crate::support::scripted_cluster::{Lines, ScriptedCluster};
use crate::support::{say, size};

const ANN: (&str, &str) = ("ann", "secret");
const KEYS: usize = 8;
const HITS_PER_S: u64 = 200;
/// From the issue: how much slower the P99 of hits may be.
const RATIO_MAX: f64 = 3.0;
const P99_MS_MAX: f64 = 10.0;
/// A debug build takes ten times as long for a turn of parsing, and more on a busy machine. It shows only that no hit waits for
/// all statements of others: before the mend, in an optimised build, that took 1,154 ms.
const P99_MS_MAX_DEBUG: f64 = 250.0;
/// The machine is shared: others may disturb a phase. The bound has to hold in one of so many rounds.
const ROUNDS_MAX: usize = 3;
/// Nice value of the hostile clients and of the scripted Neo4j. Elsewhere they are on other machines, so they
/// must not compete with the nodes for this one's cores.
const NICE: i32 = 5;

/// Ann's hits in one phase.
#[derive(Debug, Clone, Copy)]
struct Phase {
    hits: usize,
    p50_ms: f64,
    p99_ms: f64,
}

impl Phase {
    fn of(samples: &[Sample]) -> Self {
        for sample in samples {
            assert!(sample.reply().is_hit(), "a load of hits: {}", sample.reply());
        }
        let samples: Vec<_> = samples.iter().collect();
        Self {
            hits: samples.len(),
            p50_ms: percentile_ms(&samples, 50.0),
            p99_ms: percentile_ms(&samples, 99.0),
        }
    }
}

impl std::fmt::Display for Phase {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "P50 {:.2} P99 {:.2} ms ({} hits)", self.p50_ms, self.p99_ms, self.hits)
    }
}

/// Ann and her keys, of which every node has seen each.
struct Ann {
    clients: Vec<SocketAddr>,
    way: Way,
    requests: Vec<Arc<[u8]>>,
}

impl Ann {
    async fn warm(clients: Vec<SocketAddr>, way: Way) -> Self {
        let request = |number| {
            let body = json!({"statement": format!("RETURN {number} AS hit")}).to_string();
            http::post("/db/neo4j/query/v2", &http::basic(ANN.0, ANN.1), &body)
        };
        let requests: Vec<_> = (0..KEYS).map(request).collect();
        for addr in &clients {
            let mut connection = Connection::open_by(way.tls.as_ref(), *addr).await.unwrap();
            for request in &requests {
                assert_eq!(connection.ask(request).await.unwrap().status, 202);
            }
        }
        Self { clients, way, requests }
    }

    /// A phase of hits. A thread of its own sends them: neither the hostile clients nor the scripted Neo4j, which are in
    /// this process too, hold one up.
    async fn phase(&self) -> Phase {
        let (clients, way, requests) = (self.clients.clone(), self.way.clone(), self.requests.clone());
        let phase = Duration::from_secs(size("HOPCACHE_TEST_NEIGHBOURS_SECONDS", 2));
        let (tell, told) = oneshot::channel();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let samples = runtime.block_on(async {
                let load = Load::start_by(&way, &clients, &requests, HITS_PER_S);
                // tidy: the length of a phase
                tokio::time::sleep(phase).await;
                load.stop().await
            });
            let _ = tell.send(samples);
        });
        Phase::of(&told.await.expect("the load ends"))
    }
}

/// A quiet phase and one beside the load.
async fn round(ann: &Ann, kind: Kind, target: &Target) -> (Phase, Phase) {
    let quiet = ann.phase().await;
    let hostile = Hostile::start(kind, target);
    let beside = ann.phase().await;
    let done = hostile.stop().await;
    assert!(done.done > 0, "{kind:?}: nothing hostile was done: {done:?}");
    let ratio = beside.p99_ms / quiet.p99_ms;
    let verdict = if is_kept(&(quiet, beside)) { "kept" } else { "broken" };
    let what = kind.name();
    say(&format!(
        "F45: ann's hits beside {what}: quiet {quiet}; beside {beside}; {ratio:.1} x, {verdict}; {done}"
    ));
    (quiet, beside)
}

fn is_kept((quiet, beside): &(Phase, Phase)) -> bool {
    let p99_ms_max = if is_published() { P99_MS_MAX } else { P99_MS_MAX_DEBUG };
    beside.p99_ms <= p99_ms_max.max(RATIO_MAX * quiet.p99_ms)
}

/// Whether the bound has to hold. A debug build takes ten times as long to render large results and to hash passwords, so it
/// is judged only where turns of parsing bound the cost; a published build (`HOPCACHE_TEST_BINARY`) everywhere.
fn is_bound(kind: Kind) -> bool {
    is_published()
        || matches!(
            kind,
            Kind::Statements | Kind::Parameters | Kind::StatementsOverBolt | Kind::ParametersOverBolt
        )
}

fn is_published() -> bool {
    std::env::var_os("HOPCACHE_TEST_BINARY").is_some()
}

async fn nothing_slows_down_anothers_hits() {
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::new(dir.path(), "authority");
    let pair = authority.server(dir.path(), "node");
    let node = format!("drain = \"2s\"\nclient_tls = {}", pair.toml());
    let lines = Lines { node: &node, origin: "", entry: "ttl = \"10m\"" };
    let cluster = ScriptedCluster::start(&[ANN, BOB], Duration::ZERO, lines).await;
    let clients: Vec<_> = cluster.nodes.iter().map(|node| node.addrs.client).collect();
    let tls = authority.tls_client(rustls::ALL_VERSIONS, &[]);
    let apart = match std::env::var_os("HOPCACHE_TEST_NEIGHBOURS_APART") {
        Some(_) => Some(ScriptedCluster::start_beside(&cluster, &[ANN, BOB], Duration::ZERO, lines).await),
        None => None,
    };
    let loaded = apart.as_ref().unwrap_or(&cluster);
    let addrs = &loaded.nodes[0].addrs;
    let target = Target { addr: addrs.client, bolt: addrs.bolt, tls: tls.clone() };
    let ann = Ann::warm(clients, Way { tls: Some(tls), requests_per_connection: usize::MAX }).await;
    let rounds_min = size("HOPCACHE_TEST_NEIGHBOURS_ROUNDS", 1);
    let mut broken = Vec::new();
    let kinds = std::env::var("HOPCACHE_TEST_NEIGHBOURS_KINDS").ok();
    let is_chosen = |kind: &Kind| {
        let named = |kinds: &String| kinds.split(',').any(|name| name == format!("{kind:?}"));
        kinds.as_ref().is_none_or(named)
    };
    for kind in Kind::ALL.into_iter().filter(is_chosen) {
        let mut seen = Vec::new();
        let is_open = |seen: &Vec<_>| is_bound(kind) && !seen.iter().any(is_kept);
        while seen.len() < rounds_min || (seen.len() < ROUNDS_MAX && is_open(&seen)) {
            seen.push(round(&ann, kind, &target).await);
        }
        if is_bound(kind) && !seen.iter().any(is_kept) {
            broken.push((kind, seen));
        }
    }
    assert!(broken.is_empty(), "quiet and beside: {broken:?}");
}

#[test]
fn f45_nothing_that_one_client_does_slows_down_anothers_hits() {
    let step_back = || {
        // An error is ignored: at the usual priority the figures are worse than they need be.
        let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), NICE);
    };
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).enable_all().on_thread_start(step_back).build().unwrap();
    // The test itself is on this thread, so the nodes, which it starts, have the usual priority.
    runtime.block_on(nothing_slows_down_anothers_hits());
}
