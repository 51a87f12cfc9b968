//! F37: a principal floods a node with random parameters and gets 429. Another principal loses less than 5 % of its
//! hits, and its misses take a few runs longer. Memory is smaller than the flood's entries.
//!
//! `HOPCACHE_TEST_FLOOD_S` asks for more than 6 s.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::task::JoinSet;

use crate::support::http::{Connection, Reply, basic, crowd, post};
use crate::support::pace::Slowness;
use crate::support::scripted_cluster::{Lines, ScriptedCluster};
use crate::support::{say, size, until};

const CALM: (&str, &str) = ("calm", "the-password-of-calm");
const FLOOD: (&str, &str) = ("flood", "the-password-of-flood");
const KEYS: usize = 200;
/// Most clients of the flood: over three times the slots of a node, and over the places of one principal in its queue.
/// They come in groups, each when the one before is connected and waits, until the queues are full.
const FLOODING: usize = 3_600;
const GROUP: usize = 300;
/// Of one run, at four slots for each node: the flood asks for far more than that.
const RUN: Duration = Duration::from_millis(100);
/// Characters of each of the flood's answers.
const PAD: usize = 8 << 10;
/// Fewest misses that say something, however slow the machine.
const MISSES_MIN: usize = 15;
/// A client of the flood waits after a 429 as long as its answer says.
const RETRY_AFTER: Duration = Duration::from_secs(1);

fn request(who: (&str, &str), k: &str, pad: usize) -> Arc<[u8]> {
    let body = json!({"statement": "RETURN $k AS k, $pad AS pad", "parameters": {"k": k, "pad": pad}});
    post("/db/neo4j/query/v2", &basic(who.0, who.1), &body.to_string())
}

#[derive(Default)]
struct Tally {
    /// Clients that are connected and have asked once.
    came: AtomicU64,
    answered: AtomicU64,
    slowed_down: AtomicU64,
    unavailable: AtomicU64,
    is_over: AtomicBool,
}

/// One client of the flood, until the end of the flood. On a slow machine it comes back later after a 429. Otherwise
/// the machine would do nothing but refuse.
async fn flood(addr: SocketAddr, name: usize, (tally, slowness): (Arc<Tally>, Slowness)) {
    let connection = Connection::open(addr).await;
    tally.came.fetch_add(1, Ordering::Relaxed);
    let Ok(mut connection) = connection else { return };
    let mut asked = 0_u64;
    while !tally.is_over.load(Ordering::Relaxed) {
        asked += 1;
        let Ok(reply) = connection.ask(&request(FLOOD, &format!("{name}-{asked}"), PAD)).await else {
            return;
        };
        match reply.status {
            202 => tally.answered.fetch_add(1, Ordering::Relaxed),
            429 => {
                assert_eq!(
                    reply.json()["errors"][0]["code"],
                    "Hopcache.ClientError.TooManyRequests",
                    "{reply}"
                );
                assert_eq!(reply.header("retry-after"), "1", "{reply}");
                // tidy: the client's own pace
                tokio::time::sleep(slowness.bound(RETRY_AFTER)).await;
                tally.slowed_down.fetch_add(1, Ordering::Relaxed)
            }
            503 | 504 => tally.unavailable.fetch_add(1, Ordering::Relaxed),
            _ => panic!("{reply}"),
        };
    }
}

/// The calm principal's hits: all keys, on the nodes in turn, again and again until `end`.
async fn read_on(cluster: &ScriptedCluster, end: Instant) -> (u64, u64, Vec<Duration>) {
    let mut connections = open(cluster).await;
    let (mut hits, mut others, mut took) = (0, 0, Vec::new());
    for round in 0.. {
        for k in 0..KEYS {
            let node = (k + round) % connections.len();
            let reply = connections[node].ask(&request(CALM, &k.to_string(), 0)).await.unwrap();
            assert_eq!(reply.status, 202, "{reply}");
            hits += u64::from(reply.is_hit());
            others += u64::from(!reply.is_hit());
            took.push(reply.took);
        }
        if Instant::now() >= end {
            break;
        }
    }
    (hits, others, took)
}

/// One of the calm principal's misses.
struct Miss {
    took: Duration,
    /// All runs that began at Neo4j between its question and its answer.
    runs: u64,
}

/// The calm principal's misses: one new key after another.
async fn miss_on(cluster: &ScriptedCluster, prefix: &str, end: Instant) -> Vec<Miss> {
    let mut connections = open(cluster).await;
    let mut misses = Vec::new();
    while misses.len() < MISSES_MIN || Instant::now() < end {
        let node = misses.len() % connections.len();
        let ask: Arc<[u8]> = request(CALM, &format!("{prefix}-{}", misses.len()), 0);
        let before = cluster.neo4j.runs();
        let reply: Reply = connections[node].ask(&ask).await.unwrap();
        assert_eq!(reply.status, 202, "{reply}");
        misses.push(Miss { took: reply.took, runs: cluster.neo4j.runs() - before });
    }
    misses
}

async fn open(cluster: &ScriptedCluster) -> Vec<Connection> {
    let mut connections = Vec::new();
    for node in &cluster.nodes {
        connections.push(Connection::open(node.addrs.client).await.unwrap());
    }
    connections
}

/// The given percentile of the values.
fn percentile<T: Ord + Copy>(of: impl Iterator<Item = T>, percent: usize) -> T {
    let mut sorted: Vec<T> = of.collect();
    sorted.sort_unstable();
    sorted[(sorted.len() - 1) * percent / 100]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_unique_keys_costs_another_principal_next_to_nothing() {
    let seconds = size("HOPCACHE_TEST_FLOOD_S", 6);
    let lines = Lines { node: "memory = \"2MiB\"", origin: "max_concurrent = 4", entry: "ttl = \"10m\"" };
    let cluster = ScriptedCluster::start(&[CALM, FLOOD], RUN, lines).await;
    let all = (0..KEYS).map(|k| (cluster.nodes[k % 3].addrs.client, request(CALM, &k.to_string(), 0)));
    assert!(crowd(all.collect()).await.into_iter().all(|reply| reply.unwrap().status == 202));
    let (_, others, quiet_hits) = read_on(&cluster, Instant::now()).await;
    assert_eq!(others, 0, "all is kept before the flood");
    let quiet = miss_on(&cluster, "quiet", Instant::now()).await;

    let slowness = Slowness::by(quiet.iter().map(|miss| miss.took.saturating_sub(RUN)));
    let tally = Arc::new(Tally::default());
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let mut clients = JoinSet::new();
    while count(&tally.slowed_down) == 0 && clients.len() < FLOODING {
        for name in clients.len()..clients.len() + GROUP {
            let addr = cluster.nodes[name % 3].addrs.client;
            clients.spawn(flood(addr, name, (Arc::clone(&tally), slowness)));
        }
        let all = clients.len() as u64;
        say(&format!("{all} clients have come or are coming, machine {slowness:?}"));
        until("the group is connected", Duration::from_secs(60), async || count(&tally.came) == all).await;
    }
    until("queues are full", Duration::from_secs(60), async || count(&tally.slowed_down) > 0).await;
    let flooded_by = clients.len();
    let end = Instant::now() + Duration::from_secs(seconds);
    let ((hits, others, took), misses) = tokio::join!(read_on(&cluster, end), miss_on(&cluster, "loud", end));
    tally.is_over.store(true, Ordering::Relaxed);

    let (answered, slowed) = (count(&tally.answered), count(&tally.slowed_down));
    let bytes = cluster.metric("hopcache_entry_bytes", "").await;
    say(&format!(
        "flood: {flooded_by} clients, machine {slowness:?}, {answered} answered, {slowed} got 429, {} got 503; runs {}; entries {:.1} MiB on 3 nodes",
        count(&tally.unavailable),
        cluster.neo4j.runs(),
        bytes / f64::from(1 << 20)
    ));
    say(&format!(
        "calm: {hits} hits, {others} lost; hits p50 {:?} p99 {:?} (quiet p99 {:?})",
        percentile(took.iter(), 50),
        percentile(took.iter(), 99),
        percentile(quiet_hits.iter(), 99)
    ));
    let runs_p50 = percentile(misses.iter().map(|miss| miss.runs), 50);
    say(&format!(
        "calm misses: {}, p50 {:?} p99 {:?} (quiet p50 {:?} p99 {:?}); runs of anybody meanwhile p50 {runs_p50} p99 {}",
        misses.len(),
        percentile(misses.iter().map(|miss| miss.took), 50),
        percentile(misses.iter().map(|miss| miss.took), 99),
        percentile(quiet.iter().map(|miss| miss.took), 50),
        percentile(quiet.iter().map(|miss| miss.took), 99),
        percentile(misses.iter().map(|miss| miss.runs), 99)
    ));
    assert!(answered > 0 && slowed > 0, "there was no flood");
    assert!(cluster.metric("hopcache_origin_errors_total", "too_many_runs").await > 0.0);
    assert!(others * 20 < hits + others, "{others} of {} hits lost", hits + others);
    // In line behind the flood each miss would wait for 512 runs of its node (128 for each slot), about 1,500 in all.
    // With turns it waits for the next slot. The test counts runs, not time, because a machine without a free core adds
    // time.
    assert!(runs_p50 < 300, "{runs_p50} runs before the calm principal's own");
    clients.shutdown().await;
}
