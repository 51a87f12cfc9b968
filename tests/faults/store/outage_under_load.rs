//! Must-show 1: three nodes under open-loop load while Redis is stopped, restarted empty, and gone for longer.
//!
//! Half the requests are for 20 warm keys, half for new ones, each asked at three nodes within a second. Neo4j lives,
//! so no request may be refused. The proxy before Neo4j counts every run, key by key, and each has to be explained
//! (I2).

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::json;

use super::{BREAKER, COMMITS, asks};
use crate::support::bolt_proxy::ProxiedRun;
use crate::support::cluster::{Cluster, Plan};
use crate::support::{http, say, size, until};

/// Between two requests, at least; up to 100 a second.
const TICK: Duration = Duration::from_millis(10);
const HOT_KEYS: usize = 20;
/// Requests for a new key: at three nodes, this many ticks apart.
const ECHO_TICKS: usize = 30;
/// A request's deadline: twice `origin.timeout` and a second (`answer_timeout_ms` in `crates/fronts/src/front/ask.rs`).
const DEADLINE: Duration = Duration::from_secs(11);
/// How long a result without a lease is kept (`DEGRADED_TTL_MS`). A node repeats a run after that.
const DEGRADED_TTL: Duration = Duration::from_secs(2);

/// From the decision to run to the run's arrival at the proxy: an EXPLAIN, and a connection of a busy machine.
const UNDER_WAY: Duration = Duration::from_secs(1);

fn fault_lasts() -> Duration {
    Duration::from_secs(size("HOPCACHE_TEST_STORE_SECONDS", 2))
}

struct Asked {
    key: String,
    /// Why it is no answer, if it is none: what the node wrote, or how the connection ended.
    failed: Option<String>,
    is_hit: bool,
    is_right: bool,
    took: Duration,
    at: Instant,
}

/// Load that goes on until the test ends it, after any errors.
struct Load {
    ends: Arc<AtomicBool>,
    asked: Arc<Mutex<Vec<Asked>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Load {
    fn start(clients: Vec<SocketAddr>, tick: Duration) -> Self {
        let (ends, asked) = (Arc::new(AtomicBool::new(false)), Arc::default());
        let task = tokio::spawn(drive(clients, tick, Arc::clone(&ends), Arc::clone(&asked)));
        Self { ends, asked, task }
    }

    async fn end(self) -> Vec<Asked> {
        self.ends.store(true, Ordering::Relaxed);
        self.task.await.unwrap();
        Arc::into_inner(self.asked).unwrap().into_inner().unwrap()
    }
}

async fn drive(
    clients: Vec<SocketAddr>,
    tick: Duration,
    ends: Arc<AtomicBool>,
    asked: Arc<Mutex<Vec<Asked>>>,
) {
    let mut tasks = tokio::task::JoinSet::new();
    let mut ticks = tokio::time::interval(tick);
    // A machine that stood still owes no burst.
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    for tick in 0.. {
        ticks.tick().await;
        if ends.load(Ordering::Relaxed) {
            break;
        }
        // Odd ticks: tick t asks its own new key, and asks the keys of 1 and 2 echoes ago at other nodes.
        let (name, place) = match tick % 6 {
            0 | 2 | 4 => (hot(tick / 2 % HOT_KEYS), tick / 2),
            odd => {
                let echo = odd / 2;
                let Some(born) = (tick / 6).checked_sub(echo * ECHO_TICKS / 6) else { continue };
                (asks("load new", born), born + echo)
            }
        };
        let (addr, asked) = (clients[place % clients.len()], Arc::clone(&asked));
        tasks.spawn(async move {
            let (statement, request) = name;
            let at = Instant::now();
            let reply = http::ask(addr, &request).await;
            let key = statement.trim_start_matches("RETURN '").trim_end_matches("' AS what").to_owned();
            let failed = match &reply {
                Ok(reply) if reply.status == 202 => None,
                Ok(reply) => Some(reply.to_string()),
                Err(error) => Some(error.to_string()),
            };
            let is_right =
                reply.as_ref().is_ok_and(|reply| reply.status == 202 && reply.value() == key.as_str());
            let is_hit = reply.is_ok_and(|reply| reply.is_hit());
            asked.lock().unwrap().push(Asked { key, failed, is_hit, is_right, took: at.elapsed(), at });
        });
    }
    tasks.join_all().await;
}

fn hot(k: usize) -> (String, Arc<[u8]>) {
    asks("load hot", k)
}

/// A fault, from its beginning to the time when every node was well again.
struct Window {
    name: &'static str,
    from: Instant,
    healed: Instant,
    to: Instant,
    loses_data: bool,
}

async fn all_well(cluster: &Cluster) {
    for node in &cluster.nodes {
        until(&format!("{} is well again by itself", node.name), Duration::from_secs(20), async || {
            node.admin("/readyz").await.is_ok_and(|reply| reply.json()["degraded"] == json!([]))
        })
        .await;
    }
}

async fn sum(cluster: &Cluster, name: &str, labels: &str) -> f64 {
    let mut sum = 0.0;
    for node in &cluster.nodes {
        sum += node.metric(name, labels).await.unwrap_or(0.0);
    }
    sum
}

/// Lets time pass under load.
async fn go_on(span: Duration) {
    // tidy: how long the fault lasts
    tokio::time::sleep(span).await;
}

/// The explained runs of a key (I2): the first one; one for each loss of the store's data in between; and those decided
/// while nodes could not reach the store, at most one in a degraded TTL on each node. Also returns how many the losses
/// explain.
fn explain(
    runs: &[ProxiedRun],
    windows: &[Window],
    lapses: &mut f64,
) -> (usize, Result<(&'static str, usize), String>) {
    let in_window = |at: Instant, window: &Window| at >= window.from && at <= window.to + UNDER_WAY;
    let cut_off = |at: Instant| windows.iter().any(|window| in_window(at, window));
    for window in windows {
        let inside = runs.iter().filter(|run| in_window(run.arrived, window)).count();
        let spans = (window.to + UNDER_WAY - window.from).as_millis() / DEGRADED_TTL.as_millis() + 1;
        if inside as u128 > 3 * spans {
            return (runs.len(), Err(format!("{inside} runs during \"{}\"", window.name)));
        }
    }
    let leased: Vec<Instant> = runs.iter().map(|run| run.arrived).filter(|at| !cut_off(*at)).collect();
    let losses = leased.windows(2).filter(|pair| {
        windows.iter().any(|window| window.loses_data && pair[0] < window.healed && window.from < pair[1])
    });
    let losses = losses.count();
    let unexplained = leased.len().saturating_sub(1 + losses);
    let why = match (runs.len(), leased.len()) {
        (1, _) => "1",
        (all, leased) if all > leased => "1 + runs of nodes that reached no store (+ losses)",
        _ => "1 + store losses",
    };
    if unexplained > 0 && *lapses < 1.0 {
        return (runs.len(), Err(format!("{unexplained} runs more than explained")));
    }
    *lapses -= unexplained as f64;
    (runs.len(), Ok((why, losses)))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn must_show_1_redis_stopped_restarted_and_gone_under_load() {
    let plan = Plan { origin: "timeout = \"5s\"", ..Plan::default() };
    let mut cluster = Cluster::of(plan).await;
    let mut runs_took = Vec::new();
    for k in 0..HOT_KEYS {
        runs_took.push(cluster.nodes[k % 3].ask(&hot(k).1).await.took);
    }
    runs_took.sort_unstable();
    // About a fifth of the requests are runs. A slower machine gets fewer: what it shows is no overload of Neo4j.
    let load = Load::start(cluster.clients(), TICK.max(runs_took[HOT_KEYS / 2] / 2));
    go_on(Duration::from_secs(1)).await;
    let mut windows = Vec::new();
    for (name, lasts) in [
        ("SIGSTOP, SIGCONT", fault_lasts()),
        ("killed, restarted empty at once", Duration::ZERO),
        ("killed for longer", fault_lasts()),
    ] {
        let opened = sum(&cluster, BREAKER, "to=\"open\"").await;
        let life = cluster.redis.info("run_id");
        let from = Instant::now();
        let loses_data = name.starts_with("killed");
        if loses_data {
            cluster.redis.kill();
            go_on(lasts).await;
            cluster.redis.restart().await;
        } else {
            cluster.redis.signal("STOP");
            go_on(lasts).await;
            cluster.redis.signal("CONT");
        }
        let healed = Instant::now();
        assert_eq!(cluster.redis.info("run_id") != life, loses_data, "the fault happened");
        // A poll of the log meets each node's new connection before a node that noticed nothing calls itself well.
        go_on(Duration::from_millis(600)).await;
        all_well(&cluster).await;
        let to = Instant::now();
        let opened = sum(&cluster, BREAKER, "to=\"open\"").await - opened;
        assert!(lasts.is_zero() || opened >= 3.0, "the breakers did not open: {opened}");
        say(&format!(
            "  {name}: {} ms, well again after {} ms more, breakers opened {opened}×, closed {}× so far",
            (healed - from).as_millis(),
            (to - healed).as_millis(),
            sum(&cluster, BREAKER, "to=\"closed\"").await
        ));
        windows.push(Window { name, from, healed, to, loses_data });
        go_on(Duration::from_secs(2)).await;
        assert!(!cluster.redis.keys("hopcache:*:e").is_empty(), "{name}: nothing is stored again");
    }
    let asked = load.end().await;
    cluster.redis.committed().await;
    judge_answers(&asked, &windows);
    judge_runs(&cluster, &asked, &windows).await;
}

/// Every request was answered, with its own value, in time.
fn judge_answers(asked: &[Asked], windows: &[Window]) {
    let failed: Vec<(u128, &str)> = asked
        .iter()
        .filter_map(|each| Some(((each.at - windows[0].from).as_millis(), each.failed.as_deref()?)))
        .collect();
    let slowest = asked.iter().max_by_key(|each| each.took).unwrap();
    let mut took: Vec<u128> = asked.iter().map(|each| each.took.as_millis()).collect();
    took.sort_unstable();
    let hits = asked.iter().filter(|each| each.is_hit).count();
    let during = windows.iter().find(|window| slowest.at >= window.from && slowest.at <= window.to);
    say(&format!(
        "must-show 1: {} requests over 3 nodes, {hits} hits, {} not 202; p50 {} p99 {} slowest {} ms ({})",
        asked.len(),
        failed.len(),
        took[took.len() / 2],
        took[took.len() * 99 / 100],
        slowest.took.as_millis(),
        during.map_or("between faults", |window| window.name),
    ));
    assert!(asked.len() > 100, "no load");
    assert!(
        failed.is_empty(),
        "Neo4j lives, so no request has to be refused: {} were, the first (ms after the first fault) {:?}",
        failed.len(),
        &failed[..failed.len().min(3)]
    );
    assert!(asked.iter().all(|each| each.is_right), "a client got another key's value");
    assert!(slowest.took < DEADLINE, "{:?}", slowest.took);
}

/// Every run is explained.
async fn judge_runs(cluster: &Cluster, asked: &[Asked], windows: &[Window]) {
    let lapses = sum(cluster, "hopcache_lease_grants_total", "kind=\"expired\"").await;
    let mut lapses_left = lapses;
    let mut runs: BTreeMap<String, Vec<ProxiedRun>> = BTreeMap::new();
    for run in cluster.proxy.seen("load ") {
        let key = run.statement.trim_start_matches("RETURN '").trim_end_matches("' AS what").to_owned();
        runs.entry(key).or_default().push(run);
    }
    let mut table: BTreeMap<(usize, &str), usize> = BTreeMap::new();
    for (key, runs) in &runs {
        let (count, why) = explain(runs, windows, &mut lapses_left);
        match why {
            Ok((why, _)) => *table.entry((count, why)).or_default() += 1,
            Err(problem) => {
                let ages: Vec<u128> =
                    runs.iter().map(|run| (run.arrived - windows[0].from).as_millis()).collect();
                let faults: Vec<_> = windows
                    .iter()
                    .map(|w| ((w.from - windows[0].from).as_millis(), (w.to - windows[0].from).as_millis()))
                    .collect();
                panic!("I2: {key}: {problem}; ms after the first fault: {ages:?}, faults {faults:?}");
            }
        }
    }
    assert!(asked.iter().all(|each| runs.contains_key(&each.key)), "a value that no run read");
    // The nodes' own counters agree: each result was stored once for each key and life of the store.
    let all: usize = runs.values().map(Vec::len).sum();
    let stored = sum(cluster, COMMITS, "outcome=\"stored\"").await;
    let fenced = sum(cluster, COMMITS, "outcome=\"fenced\"").await;
    let skipped = sum(cluster, COMMITS, "outcome=\"skipped\"").await;
    let lives = 1 + windows.iter().filter(|window| window.loses_data).count();
    say(&format!(
        "  {all} runs at the proxy = {stored} stored + {fenced} fenced + {skipped} without a lease"
    ));
    assert_eq!(all as f64, stored + fenced + skipped, "a run that no counter knows");
    assert!(
        stored <= (runs.len() * lives) as f64 + lapses,
        "stored more often than once for each key and life"
    );
    say(&format!("  I2: {} keys, lapses {lapses}:", runs.len()));
    for ((count, why), keys) in table {
        say(&format!("    {keys} keys with {count} runs = {why}"));
    }
}
