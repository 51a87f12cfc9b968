//! F37: a principal that sends a random parameter on every request costs another one less than 5 % of its
//! hits and a few runs' time on its misses, and is told to slow down. Memory is smaller than what the flood
//! brings in.
//!
//! `HOPCACHE_TEST_FLOOD_S` asks for more than 6 s.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::task::JoinSet;

use super::place::{Lines, Place};
use crate::support::http::{Connection, Reply, basic, post};
use crate::support::{distribution, say};

const CALM: (&str, &str) = ("calm", "the-password-of-calm");
const FLOOD: (&str, &str) = ("flood", "the-password-of-flood");
const KEYS: usize = 200;
/// Over three times the slots of a node and what one principal may have waiting there.
const FLOODING: usize = 3_600;
/// Of one run, at eight slots for each node: the flood asks for far more than that.
const RUN: Duration = Duration::from_millis(50);
/// What a client of the flood does with a 429: it waits for the time that it is told.
const RETRY_AFTER: Duration = Duration::from_secs(1);

fn request(who: (&str, &str), k: &str, pad: usize) -> Arc<[u8]> {
    let body = json!({"statement": "RETURN $k AS k, $pad AS pad", "parameters": {"k": k, "pad": pad}});
    post("/db/neo4j/query/v2", &basic(who.0, who.1), &body.to_string())
}

#[derive(Default)]
struct Tally {
    answered: AtomicU64,
    slowed_down: AtomicU64,
    unavailable: AtomicU64,
    is_over: AtomicBool,
}

/// One client of the flood, until it is over.
async fn flood(addr: SocketAddr, name: usize, tally: Arc<Tally>) {
    let Ok(mut connection) = Connection::open(addr).await else { return };
    let mut asked = 0_u64;
    while !tally.is_over.load(Ordering::Relaxed) {
        asked += 1;
        let Ok(reply) = connection.ask(&request(FLOOD, &format!("{name}-{asked}"), 16 << 10)).await else {
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
                tokio::time::sleep(RETRY_AFTER).await;
                tally.slowed_down.fetch_add(1, Ordering::Relaxed)
            }
            503 | 504 => tally.unavailable.fetch_add(1, Ordering::Relaxed),
            _ => panic!("{reply}"),
        };
    }
}

/// The calm principal's hits: all keys, on the nodes in turn, again and again until `end`.
async fn read_on(place: &Place, end: Instant) -> (u64, u64, Vec<Duration>) {
    let mut connections = open(place).await;
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

/// The calm principal's misses: one new key after another.
async fn miss_on(place: &Place, prefix: &str, end: Instant, most: usize) -> Vec<Duration> {
    let mut connections = open(place).await;
    let mut took = Vec::new();
    while took.len() < most && Instant::now() < end {
        let node = took.len() % connections.len();
        let ask: Arc<[u8]> = request(CALM, &format!("{prefix}-{}", took.len()), 0);
        let reply: Reply = connections[node].ask(&ask).await.unwrap();
        assert_eq!(reply.status, 202, "{reply}");
        took.push(reply.took);
    }
    took
}

async fn open(place: &Place) -> Vec<Connection> {
    let mut connections = Vec::new();
    for node in &place.nodes {
        connections.push(Connection::open(node.addrs.client).await.unwrap());
    }
    connections
}

fn worst_of_99_percent(took: &[Duration]) -> Duration {
    let mut sorted = took.to_vec();
    sorted.sort_unstable();
    sorted[(sorted.len() - 1) * 99 / 100]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_unique_keys_costs_another_principal_next_to_nothing() {
    let seconds = std::env::var("HOPCACHE_TEST_FLOOD_S").map_or(6, |text| text.parse().unwrap());
    let lines = Lines { node: "memory = \"8MiB\"", origin: "max_concurrent = 8", entry: "ttl = \"10m\"" };
    let place = Place::start(&[CALM, FLOOD], RUN, lines).await;
    for k in 0..KEYS {
        assert_eq!(place.nodes[k % 3].ask(&request(CALM, &k.to_string(), 0)).await.status, 202);
    }
    let (_, others, quiet_hits) = read_on(&place, Instant::now()).await;
    assert_eq!(others, 0, "all is kept before the flood");
    let quiet = miss_on(&place, "quiet", Instant::now() + Duration::from_secs(5), 30).await;

    let tally = Arc::new(Tally::default());
    let mut clients = JoinSet::new();
    for name in 0..FLOODING {
        let addr = place.nodes[name % 3].addrs.client;
        clients.spawn(flood(addr, name, Arc::clone(&tally)));
    }
    let full = async || place.metric("hopcache_origin_in_flight", "").await >= 24.0;
    crate::support::until("every slot is taken", Duration::from_secs(20), full).await;
    let end = Instant::now() + Duration::from_secs(seconds);
    let ((hits, others, took), misses) =
        tokio::join!(read_on(&place, end), miss_on(&place, "loud", end, usize::MAX));
    tally.is_over.store(true, Ordering::Relaxed);

    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let (answered, slowed) = (count(&tally.answered), count(&tally.slowed_down));
    let bytes = place.metric("hopcache_entry_bytes", "").await;
    say(&format!(
        "flood: {FLOODING} clients, {answered} answered, {slowed} told 429, {} told 503; runs {}; entries {} MiB on 3 nodes",
        count(&tally.unavailable),
        place.neo4j.runs(),
        bytes / f64::from(1 << 20)
    ));
    say(&format!(
        "calm: {hits} hits, {others} lost; hits p99 {:?} (quiet {:?}); misses {} p99 {:?} (quiet p99 {:?})",
        worst_of_99_percent(&took),
        worst_of_99_percent(&quiet_hits),
        misses.len(),
        worst_of_99_percent(&misses),
        worst_of_99_percent(&quiet)
    ));
    say(&format!("calm misses under the flood: {}", distribution(&misses)));
    assert!(answered > 0 && slowed > 0, "there was no flood");
    assert!(place.metric("hopcache_origin_errors_total", "too_many_runs").await > 0.0);
    assert!(others * 20 < hits + others, "{others} of {} hits lost", hits + others);
    // In line behind the flood they would wait for 1,024 runs at eight a time: 6 s. In turn, for one.
    assert!(misses.len() > 10 && worst_of_99_percent(&misses) < Duration::from_secs(2), "{misses:?}");
    clients.shutdown().await;
}
