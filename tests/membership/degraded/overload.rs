//! F42: five times the origin's capacity. Hits are as fast as before, refreshes give way, and misses that would come
//! too late fail at once. F37: of many principals that ask for ever new keys, none takes another's place.
//!
//! `HOPCACHE_TEST_OVERLOAD_S`: how long the overload lasts (3). `HOPCACHE_TEST_STRICT=1`: F42's own bound, hits' p99 below twice
//! the quiet one, for a release build (`HOPCACHE_TEST_BINARY`) on a calm machine.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::task::JoinSet;

use super::{ANN, LINES, Who, one_node, percentile, read};
use crate::support::http::{self, Connection, Reply};
use crate::support::scripted_cluster::{Lines, Nodes, ScriptedCluster};
use crate::support::{say, size, until};

const HOT: usize = 100;
const HITS_PER_S: u64 = 100;
const SLOTS: &str = "max_concurrent = 4\ntimeout = \"2s\"";

/// Requests leave at their times, each on its own connection, whether or not earlier ones were answered (open loop).
/// Also returns this process' own lateness (p99), which the machine adds to every process that wakes up.
async fn open_loop(
    client: SocketAddr,
    per_s: u64,
    lasts: Duration,
    request: impl Fn(u64) -> Arc<[u8]>,
) -> (Vec<Reply>, Duration) {
    let (began, mut sent, mut late) = (Instant::now(), JoinSet::new(), Vec::new());
    for place in 0..per_s * lasts.as_secs() {
        let (due, request) = (
            began + Duration::from_secs(1) * u32::try_from(place).unwrap() / u32::try_from(per_s).unwrap(),
            request(place),
        );
        // tidy: the simulated arrivals
        tokio::time::sleep_until(due.into()).await;
        late.push(due.elapsed());
        sent.spawn(async move { http::ask(client, &request).await.unwrap() });
    }
    (sent.join_all().await, percentile(&late, 99))
}

fn hot(place: u64) -> Arc<[u8]> {
    read(ANN, &format!("hot-{}", place % HOT as u64))
}

/// Asks each hot key once, with no more requests at a time than the slowest of these origins runs within its 2 s.
async fn warm(client: SocketAddr) {
    let keys: Vec<_> = (0..HOT as u64).map(|place| (client, hot(place))).collect();
    for some in keys.chunks(20) {
        let replies = http::crowd(some.to_vec()).await;
        replies.into_iter().for_each(|reply| assert_eq!(reply.unwrap().status, 202));
    }
}

fn took(replies: &[Reply]) -> Vec<Duration> {
    replies.iter().map(|reply| reply.took).collect()
}

/// The origin's capacity for clients that wait for each answer, in runs a second.
async fn calibrate(scene: &ScriptedCluster) -> f64 {
    let (count, end) = (Arc::new(AtomicUsize::new(0)), Instant::now() + Duration::from_secs(1));
    let mut clients = JoinSet::new();
    for client in 0..8 {
        let (addr, count) = (scene.client(), Arc::clone(&count));
        clients.spawn(async move {
            let mut connection = Connection::open(addr).await.unwrap();
            for place in 0.. {
                if Instant::now() >= end {
                    return;
                }
                let reply = connection.ask(&read(ANN, &format!("calibrate-{client}-{place}"))).await.unwrap();
                assert_eq!(reply.status, 202, "{reply}");
                count.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    clients.join_all().await;
    count.load(Ordering::Relaxed) as f64
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hits_are_served_and_misses_shed_at_five_times_the_load() {
    let lasts = Duration::from_secs(size("HOPCACHE_TEST_OVERLOAD_S", 3));
    let delay = Duration::from_millis(50);
    let scene = one_node(delay, Lines { origin: SLOTS, ..LINES }).await;
    let client = scene.client();
    warm(client).await;
    let capacity = calibrate(&scene).await;
    let (quiet, _) = open_loop(client, HITS_PER_S, Duration::from_secs(2), hot).await;
    let per_s = (5.0 * capacity) as u64;
    let (runs, leases) = (scene.neo4j.runs(), scene.metric("hopcache_lease_grants_total", "").await);
    let ((hits, late), (misses, _)) = tokio::join!(
        open_loop(client, HITS_PER_S, lasts, hot),
        open_loop(client, per_s, lasts, |place| read(ANN, &format!("miss-{place}")))
    );
    let degraded = scene.readyz().await;
    let lost = hits.iter().filter(|reply| !reply.is_hit()).count();
    assert_eq!(lost, 0, "hits are shed last");
    let (well, shed): (Vec<Reply>, Vec<Reply>) = misses.into_iter().partition(|reply| reply.status == 202);
    for reply in &shed {
        assert_eq!((reply.status, reply.header("retry-after")), (503, "1"), "{reply}");
    }
    let sheds = scene.metric("hopcache_shed_total", "class=\"miss\"").await;
    assert!(shed.len() > well.len(), "{} shed, {} answered: no overload", shed.len(), well.len());
    assert!(sheds >= shed.len() as f64, "{sheds} counted of {}", shed.len());
    assert_eq!(degraded["degraded"], json!(["load"]), "{degraded}");
    // A request that is refused a place at once is refused before it gets a lease.
    let leases = scene.metric("hopcache_lease_grants_total", "").await - leases;
    assert!(leases < (well.len() + shed.len() / 2) as f64, "{leases} leases for {} runs", well.len());
    // Work goes on: the answered requests are at least half of the origin's capacity.
    assert!(well.len() as f64 >= capacity * lasts.as_secs_f64() / 2.0, "{} of {capacity}/s", well.len());
    let (quiet_p99, p99) = (percentile(&took(&quiet), 99), percentile(&took(&hits), 99));
    let ratio = p99.as_secs_f64() / quiet_p99.as_secs_f64();
    // F42 asks for a factor of two, which only the strict form asserts. In a debug build clients, Neo4j and Redis share
    // slow cores with the node, and each part of a hit's way (client, node, client) waits for a core as this process
    // does. In line with the misses a hit would take up to 2 s.
    let bound = (quiet_p99 * 10).max(Duration::from_millis(100)) + 4 * late;
    assert!(p99 < bound, "{p99:?}, {ratio:.1} times {quiet_p99:?}; this process was late by {late:?}");
    if size("HOPCACHE_TEST_STRICT", 0) > 0 {
        assert!(ratio < 2.0, "{p99:?}, {ratio:.2} times {quiet_p99:?}; this process was late by {late:?}");
    }
    let (quiet_p50, p50) = (percentile(&took(&quiet), 50), percentile(&took(&hits), 50));
    assert!(p50 < (quiet_p50 * 10).max(Duration::from_millis(50)) + late, "{p50:?}, quiet {quiet_p50:?}");
    say(&format!(
        "F42: capacity {capacity:.0} runs/s, offered {per_s} misses/s and {HITS_PER_S} hits/s for {lasts:?}; hits p50 {:?} p99 {:?}, quiet p50 {:?} p99 {:?}: ratio {ratio:.2}, this process late by {late:?}, 0 of {} lost",
        percentile(&took(&hits), 50),
        percentile(&took(&hits), 99),
        percentile(&took(&quiet), 50),
        percentile(&took(&quiet), 99),
        hits.len()
    ));
    say(&format!(
        "F42 misses: {} answered (p99 {:?}), {} shed with 503 and Retry-After (p50 {:?}); {} runs, {leases} leases",
        well.len(),
        percentile(&took(&well), 99),
        shed.len(),
        percentile(&took(&shed), 50),
        scene.neo4j.runs() - runs
    ));
    until("nothing is degraded", Duration::from_secs(20), async || {
        scene.readyz().await["degraded"] == json!([])
    })
    .await;
}

const FLOODS: usize = 20;
const FLOOD_CLIENTS: usize = 25;

fn users() -> &'static [Who] {
    let floods = (0..FLOODS).map(|flood| -> Who {
        (String::leak(format!("flood-{flood}")), String::leak(format!("the-password-of-flood-{flood}")))
    });
    Vec::leak(floods.chain([ANN]).collect())
}

/// How the clients of a flood were answered.
#[derive(Default)]
struct ClientCounts {
    answered: AtomicU64,
    slowed_down: AtomicU64,
    unavailable: AtomicU64,
    is_over: AtomicBool,
}

/// One client of a flood, until the end of the flood. It waits as long as each answer says.
async fn flood(client: SocketAddr, who: Who, name: usize, counts: Arc<ClientCounts>) {
    let mut connection = Connection::open(client).await.unwrap();
    let mut asked = 0_u64;
    while !counts.is_over.load(Ordering::Relaxed) {
        asked += 1;
        let reply = connection.ask(&read(who, &format!("{}-{name}-{asked}", who.0))).await.unwrap();
        match reply.status {
            202 => counts.answered.fetch_add(1, Ordering::Relaxed),
            429 => counts.slowed_down.fetch_add(1, Ordering::Relaxed),
            503 => counts.unavailable.fetch_add(1, Ordering::Relaxed),
            _ => panic!("{reply}"),
        };
        if reply.status != 202 {
            assert_eq!(reply.header("retry-after"), "1", "{reply}");
            // tidy: the client's own pace
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }
}

/// Hits and others of a principal that reads its keys again and again.
async fn read_on(client: SocketAddr, end: Instant) -> (usize, usize) {
    let (mut connection, mut hits, mut lost) = (Connection::open(client).await.unwrap(), 0, 0);
    for place in 0.. {
        if Instant::now() >= end {
            break;
        }
        let reply = connection.ask(&hot(place)).await.unwrap();
        hits += usize::from(reply.is_hit());
        lost += usize::from(!reply.is_hit());
    }
    (hits, lost)
}

/// The times of a principal's misses for one new key after another.
async fn miss_on(client: SocketAddr, end: Instant) -> Vec<Duration> {
    let (mut connection, mut took) = (Connection::open(client).await.unwrap(), Vec::new());
    while Instant::now() < end {
        let reply = connection.ask(&read(ANN, &format!("new-{}", took.len()))).await.unwrap();
        assert_eq!(reply.status, 202, "one miss at a time is never over its part: {reply}");
        took.push(reply.took);
    }
    took
}

/// F37: twenty principals send a random parameter on every request, all at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_principals_that_flood_leave_another_its_place() {
    let users = users();
    let delay = Duration::from_millis(100);
    let node = "drain = \"2s\"\nmemory = \"2MiB\"";
    let scene =
        ScriptedCluster::of(Nodes(1, None), users, delay, Lines { origin: SLOTS, node, ..LINES }).await;
    let client = scene.client();
    warm(client).await;
    let (counts, mut clients) = (Arc::new(ClientCounts::default()), JoinSet::new());
    for name in 0..FLOODS * FLOOD_CLIENTS {
        clients.spawn(flood(client, users[name % FLOODS], name, Arc::clone(&counts)));
    }
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    until("the flood gets 429", Duration::from_secs(30), async || count(&counts.slowed_down) > 100).await;
    let end = Instant::now() + Duration::from_secs(3);
    let ((hits, lost), misses) = tokio::join!(read_on(client, end), miss_on(client, end));
    counts.is_over.store(true, Ordering::Relaxed);
    const { assert!(FLOOD_CLIENTS < 128 * 4, "with 128 places for each slot no client would get 429") };
    assert!(lost * 20 < hits + lost, "{lost} of {} hits lost", hits + lost);
    let refused = scene.metric("hopcache_origin_errors_total", "too_many_runs").await;
    assert!(refused > 0.0 && scene.metric("hopcache_shed_total", "class=\"miss\"").await >= refused);
    say(&format!(
        "F37: {FLOODS} principals × {FLOOD_CLIENTS} clients: {} answered, {} got 429, {} got 503; calm: {hits} hits, {lost} lost; {} misses p50 {:?} p99 {:?} (21 turns are 525 ms)",
        count(&counts.answered),
        count(&counts.slowed_down),
        count(&counts.unavailable),
        misses.len(),
        percentile(&misses, 50),
        percentile(&misses, 99),
    ));
    clients.join_all().await;
}

/// A single principal at an origin that keeps up gets no 429, for any number of keys.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_principal_alone_has_every_slot() {
    let scene = one_node(Duration::from_millis(20), Lines { origin: "max_concurrent = 4", ..LINES }).await;
    // Four slots and 20 ms: a second's work, and ten seconds to wait for it.
    let crowd = (0..200).map(|key| (scene.client(), read(ANN, &format!("alone-{key}")))).collect();
    let replies = http::crowd(crowd).await;
    let well = replies.iter().filter(|reply| reply.as_ref().is_ok_and(|reply| reply.status == 202)).count();
    assert_eq!(well, 200);
    assert_eq!(scene.metric("hopcache_shed_total", "").await, 0.0);
    say("F37: 200 new keys at once by the only principal: 200 answered, none got 429");
}

/// A refresh that waited first has its turn last.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refresh_gives_way_to_misses() {
    let scene = one_node(
        Duration::ZERO,
        Lines { origin: "max_concurrent = 2", entry: "ttl = \"1s\"\nttl_jitter = 0\ngrace = 10.0", ..LINES },
    )
    .await;
    let text = |text: &str| {
        http::post("/db/neo4j/query/v2", &http::basic(ANN.0, ANN.1), &json!({"statement": text}).to_string())
    };
    let hot = text("RETURN 'REFRESHED' AS k");
    assert_eq!(scene.nodes[0].ask(&hot).await.status, 202);
    let mut waiting = JoinSet::new();
    let ask = |request: Arc<[u8]>, waiting: &mut JoinSet<Reply>| {
        let client = scene.client();
        waiting.spawn(async move { http::ask(client, &request).await.unwrap() });
    };
    // Known for reads before the slots are taken: EXPLAIN needs one.
    for known in ["RETURN $k AS slot", "RETURN $k AS miss"] {
        let body = json!({"statement": known, "parameters": {"k": "known"}});
        let request = http::post("/db/neo4j/query/v2", &http::basic(ANN.0, ANN.1), &body.to_string());
        assert_eq!(scene.nodes[0].ask(&request).await.status, 202);
    }
    let of = |statement: &str, k: usize| {
        let body = json!({"statement": statement, "parameters": {"k": k}});
        http::post("/db/neo4j/query/v2", &http::basic(ANN.0, ANN.1), &body.to_string())
    };
    scene.neo4j.orders().hold("AS slot");
    (0..2).for_each(|k| ask(of("RETURN $k AS slot", k), &mut waiting));
    until("both slots are taken", Duration::from_secs(10), async || {
        scene.metric("hopcache_origin_in_flight", "").await == 2.0
    })
    .await;
    until("a stale hit has asked for a refresh", Duration::from_secs(10), async || {
        let reply = scene.nodes[0].ask(&hot).await;
        assert!(reply.is_hit(), "{reply}");
        reply.header("cache-status").contains("detail=stale")
            && scene.metric("xfetch_active_refreshes", "").await == 1.0
    })
    .await;
    // From outside it is invisible whether the request waits for its slot. It has the lease when it does.
    until("the refresh has its lease", Duration::from_secs(10), async || {
        scene.metric("xfetch_active_locks", "").await == 3.0
    })
    .await;
    (0..6).for_each(|k| ask(of("RETURN $k AS miss", k), &mut waiting));
    until("all wait", Duration::from_secs(10), async || scene.metric("xfetch_active_locks", "").await == 9.0)
        .await;
    scene.neo4j.orders().release();
    let replies = waiting.join_all().await;
    assert!(replies.iter().all(|reply| reply.status == 202));
    until("the refresh has ended", Duration::from_secs(10), async || {
        scene.neo4j.orders().count("REFRESHED") >= 2
    })
    .await;
    let refreshed = scene.neo4j.orders().came("REFRESHED")[1].place;
    let before = scene.neo4j.orders().came("AS miss").iter().filter(|run| run.place < refreshed).count();
    // Two slots: the last miss may have been called into the other one at the same moment.
    assert!(before >= 6, "{before} of 7 misses (one of them before) ran before a refresh that waited first");
    say(&format!("F42: a refresh that waited before 6 misses ran after {} of them", before - 1));
}
