//! One real node on a Redis that restarts empty, is slow, full, evicting, read-only (F15, F17 to F20).

use std::time::Duration;

use serde_json::json;

use super::{BREAKER, COMMITS, WAIT_MAX, asks, counting_proxy, run_arrives};
use crate::support::cluster::{Cluster, OwnLabel, Plan, at_neo4j};
use crate::support::http;
use crate::support::lone::{Lone, Spec};
use crate::support::pace::Slowness;
use crate::support::redis::{Options, RedisServer};
use crate::support::tcp_proxy::{Mode, TcpProxy};
use crate::support::{say, until};

const FENCED: &str = "outcome=\"fenced\"";
const SKIPPED: &str = "outcome=\"skipped\"";

/// F15, I2, I3: one more run for each key, and a holder of before the restart is refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f15_a_redis_that_restarts_empty_costs_one_run_for_each_key() {
    let (proxy, mut redis) = (counting_proxy().await, RedisServer::start().await);
    let node = Lone::start(&Spec::on(&redis.uri()).behind(proxy.addr())).await;
    for k in 0..10 {
        let reply = node.ask(&asks("f15", k).1).await;
        assert!(reply.header("cache-status").contains("; stored"), "{reply}");
    }
    redis.committed().await;
    let (slow, request) = asks("f15 slow", 0);
    proxy.delay_runs(&slow, Duration::from_secs(2));
    let client = tokio::spawn(http::crowd(vec![(node.addrs.client, request.clone())]));
    run_arrives(&proxy, &slow, 1).await;
    let life = redis.info("run_id");
    redis.kill();
    redis.restart().await;
    assert_ne!(redis.info("run_id"), life, "another life of Redis");
    assert_eq!(redis.keys("hopcache:*:[el]").len(), 0, "it lost its data");
    node.wait_until_well().await;
    assert!(proxy.seen(&slow)[0].answered.is_none(), "the holder still reads");

    let reply = client.await.unwrap().remove(0).unwrap();
    assert_eq!(reply.value(), "f15 slow 0.", "its client is answered: {reply}");
    until("its late commit is fenced", WAIT_MAX, async || node.count(COMMITS, FENCED).await == 1.0).await;
    assert_eq!(redis.keys("hopcache:*:[el]").len(), 0, "nothing landed late");
    for _ in 0..3 {
        for k in 0..10 {
            let (statement, request) = asks("f15", k);
            assert_eq!(node.ask(&request).await.value(), format!("f15 {k}."));
            assert_eq!(proxy.runs(&statement), 2, "one run before, one after the loss: {statement}");
        }
    }
    assert!(node.ask(&request).await.header("cache-status").contains("; stored"));
    say("F15: 10 keys, 2 runs each (1 + 1 store loss); late commit fenced: 1");
}

/// F15, F2, I3: the holder is stopped · Redis loses everything · another node stores a newer value under a lease of the
/// new Redis · the holder goes on: its late commit, on a new connection, is refused, and its old value is not kept.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f15_a_holder_that_slept_over_the_restart_is_refused() {
    let label = OwnLabel::new("Restart");
    at_neo4j(&format!("CREATE (:{} {{value: 'old'}})", label.0)).await;
    let mut cluster = Cluster::of(Plan { started: 2, seeded: 2, ..Plan::default() }).await;
    let statement = format!("MATCH (n:{}) RETURN n.value AS value", label.0);
    let request = http::query(&statement, &json!({}));
    cluster.proxy.delay_runs(&statement, Duration::from_millis(300));
    let place = cluster.owner(&statement, &json!({})).await;
    let own = tokio::spawn(http::crowd(vec![(cluster.nodes[place].addrs.client, request.clone())]));
    run_arrives(&cluster.proxy, &statement, 1).await;
    cluster.nodes[place].signal("STOP");
    let quiet = Duration::from_millis(100);
    until("Neo4j has answered the holder", WAIT_MAX, async || {
        cluster.proxy.seen(&statement)[0].answered.is_some_and(|at| at.elapsed() > quiet)
    })
    .await;
    at_neo4j(&format!("MATCH (n:{}) SET n.value = 'new'", label.0)).await;
    let life = cluster.redis.info("run_id");
    cluster.redis.kill();
    cluster.redis.restart().await;
    assert_ne!(cluster.redis.info("run_id"), life);
    let (holder, other) = (&cluster.nodes[place], &cluster.nodes[1 - place]);
    until("the newer value is stored", WAIT_MAX, async || {
        let reply = other.ask(&request).await;
        assert_eq!(reply.value(), "new");
        cluster.redis.keys("hopcache:*:e").len() == 1
    })
    .await;
    holder.signal("CONT");
    let late = own.await.unwrap().remove(0).unwrap();
    assert_eq!(late.value(), "old", "it had not read before the change: {late}");
    until("the late commit is counted as fenced", WAIT_MAX, async || {
        holder.metric(COMMITS, FENCED).await == Some(1.0)
    })
    .await;
    holder.wait_for_members(2).await;
    for node in [holder, other] {
        assert_eq!(node.ask(&request).await.value(), "new", "{} gives the old value", node.name);
    }
    say("F15: holder stopped over the restart: late commit fenced, newer value on both nodes");
}

/// F17: 2 s slow. Each command has its deadline, the breaker opens, flights in memory collapse.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f17_a_redis_that_takes_two_seconds_costs_its_deadline_only() {
    let (proxy, redis) = (counting_proxy().await, RedisServer::start().await);
    let wire = TcpProxy::start(redis.addr()).await;
    let node = Lone::start(&Spec::on(&format!("redis://{}", wire.addr())).behind(proxy.addr())).await;
    until("the warm result is stored", WAIT_MAX, async || {
        let reply = node.ask(&asks("f17 warm", 0).1).await;
        reply.is_hit() || reply.header("cache-status").contains("; stored")
    })
    .await;
    node.wait_until_well().await;
    let slowness = Slowness::of(&[node.addrs.client]).await;
    wire.set(Mode::Delay(Duration::from_secs(2)));
    let (statement, request) = asks("f17 crowd", 0);
    proxy.delay_runs(&statement, Duration::from_millis(500));
    let mut slowest = Duration::ZERO;
    for reply in http::crowd(vec![(node.addrs.client, request.clone()); 60]).await {
        let reply = reply.unwrap();
        assert_eq!(reply.value(), "f17 crowd 0.");
        slowest = slowest.max(reply.took);
    }
    assert_eq!(proxy.runs(&statement), 1, "the flight did not collapse");
    until("the breaker opens", WAIT_MAX, async || node.count(BREAKER, "to=\"open\"").await >= 1.0).await;
    let mut cold = Duration::ZERO;
    for k in 0..10 {
        cold = cold.max(node.ask(&asks("f17 cold", k).1).await.took);
    }
    // On a busy machine the node may have been paused. It then serves no copy of before the pause, and runs once (F55).
    until("memory serves", WAIT_MAX, async || node.ask(&asks("f17 warm", 0).1).await.is_hit()).await;
    let why = node.wait_until_degraded("store").await;
    assert!(why.contains("does not answer in time"), "{why}");
    // At most four deadlines of 100 ms (`STORE_SILENCES_MAX`), and the commit's. Then the breaker opens.
    let (most, most_cold) = (slowness.bound(Duration::from_secs(3)), slowness.bound(Duration::from_secs(2)));
    assert!(slowest < most && cold < most_cold, "{slowest:?} of {most:?}, {cold:?} of {most_cold:?}");
    wire.set(Mode::Pass);
    node.wait_until_well().await;
    assert!(node.count(BREAKER, "to=\"closed\"").await >= 1.0);
    until("results are stored again", WAIT_MAX, async || {
        let reply = node.ask(&asks("f17 after", 0).1).await;
        reply.is_hit() || reply.header("cache-status").contains("; stored")
    })
    .await;
    say(&format!(
        "F17: replies 2 s late: 60 clients 1 run, slowest {} ms (run 500 ms); then cold ≤ {} ms; opened {}×",
        slowest.as_millis(),
        cold.as_millis(),
        node.count(BREAKER, "to=\"open\"").await
    ));
}

/// F18: hits are served, nothing is stored and that is counted; ready, degraded without flapping.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f18_a_full_redis_serves_hits_and_stores_nothing() {
    let redis = RedisServer::with(Options::args(&["--maxmemory-policy", "noeviction"])).await;
    let mut node = Lone::start(&Spec::on(&redis.uri())).await;
    node.ask(&asks("f18 kept", 0).1).await;
    redis.committed().await;
    // A node that still ran would log the full store too.
    node.node.kill();
    assert_eq!(redis.tell("CONFIG SET maxmemory 1"), "+OK");
    node.node.start();
    node.wait_for_members(1).await;
    let kept = node.ask(&asks("f18 kept", 0).1).await;
    assert!(kept.is_hit(), "an entry is read from a full Redis: {kept}");
    for k in 0..5 {
        let reply = node.ask(&asks("f18", k).1).await;
        assert_eq!(reply.value(), format!("f18 {k}."));
        assert!(reply.header("cache-status").contains("detail=degraded"), "{reply}");
    }
    assert!(redis.info("errorstat_OOM").starts_with("count="), "Redis refused");
    assert_eq!(node.count(COMMITS, SKIPPED).await, 5.0, "counted");
    assert_eq!(redis.keys("hopcache:*:e").len(), 1);
    let why = node.wait_until_degraded("store").await;
    assert!(why.contains("full"), "{why}");
    for _ in 0..100 {
        assert_eq!(node.ready().await["degraded"], json!(["store"]), "it flaps");
        // tidy: poll interval
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(node.count("hopcache_degraded", "part=\"store\"").await, 1.0);
    assert_eq!(node.log_count("the store is full"), 1, "logged once: {}", node.log());
    assert_eq!(redis.tell("CONFIG SET maxmemory 0"), "+OK");
    node.wait_until_well().await;
    // Another call than the one that is logged may have closed the breaker.
    for _ in 0..1_000 {
        if node.log_count("takes writes again") > 0 {
            break;
        }
        // tidy: poll interval
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(node.log_count("takes writes again"), 1);
    assert!(node.ask(&asks("f18 after", 0).1).await.header("cache-status").contains("; stored"));
    say(&format!(
        "F18: OOM {}; 5 runs skipped, hit served, degraded without a gap for 1 s",
        redis.info("errorstat_OOM")
    ));
}

/// F19: an evicted lease has lapsed for any holder. The node warns of this at its start.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f19_an_evicted_lease_has_lapsed() {
    let proxy = counting_proxy().await;
    let redis = RedisServer::with(Options::args(&["--maxmemory-policy", "volatile-lru"])).await;
    let node = Lone::start(&Spec::on(&redis.uri()).behind(proxy.addr())).await;
    until("the warning", WAIT_MAX, async || node.log_count("Redis may evict leases") == 1).await;
    let (statement, request) = asks("f19", 0);
    proxy.delay_runs(&statement, Duration::from_millis(800));
    let client = tokio::spawn(http::crowd(vec![(node.addrs.client, request.clone())]));
    run_arrives(&proxy, &statement, 1).await;
    assert_eq!(redis.keys("hopcache:*:l").len(), 1, "the lease is held");
    assert_eq!(redis.tell("CONFIG SET maxmemory 1"), "+OK");
    until("the lease is evicted", WAIT_MAX, async || {
        redis.tell("SET other 1");
        redis.keys("hopcache:*:l").is_empty()
    })
    .await;
    let evicted: u64 = redis.info("evicted_keys").parse().unwrap();
    assert!(evicted >= 1);
    assert_eq!(redis.tell("CONFIG SET maxmemory 0"), "+OK");
    let reply = client.await.unwrap().remove(0).unwrap();
    assert_eq!(reply.value(), "f19 0.");
    until("its late commit is fenced", WAIT_MAX, async || node.count(COMMITS, FENCED).await == 1.0).await;
    assert_eq!(redis.keys("hopcache:*:e").len(), 0);
    let again = node.ask(&request).await;
    assert!(again.header("cache-status").contains("; stored"), "{again}");
    assert_eq!(proxy.runs(&statement), 2, "1 + 1 lapse");
    say(&format!("F19: evicted_keys {evicted}, commit fenced, 2 runs = 1 + 1 lapse, warned once"));
}

/// F20: while Redis is a replica nothing is stored, and the log says so. When Redis leads again, the node uses it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f20_a_redis_that_became_a_replica_is_treated_as_unreachable() {
    let (redis, other) = (RedisServer::start().await, RedisServer::start().await);
    let node = Lone::start(&Spec::on(&redis.uri())).await;
    node.ask(&asks("f20", 0).1).await;
    assert_eq!(redis.tell(&format!("REPLICAOF 127.0.0.1 {}", other.addr().port())), "+OK");
    until("it follows", WAIT_MAX, async || redis.info("master_link_status") == "up").await;
    for k in 1..5 {
        let reply = node.ask(&asks("f20", k).1).await;
        assert_eq!(reply.value(), format!("f20 {k}."));
        assert!(!reply.header("cache-status").contains("; stored"), "{reply}");
    }
    let why = node.wait_until_degraded("store").await;
    assert!(why.contains("read-only"), "{why}");
    let refused = redis.info("errorstat_READONLY");
    assert!(refused.starts_with("count="), "it refused");
    assert_eq!(redis.tell("REPLICAOF NO ONE"), "+OK");
    node.wait_until_well().await;
    assert!(node.ask(&asks("f20 after", 0).1).await.header("cache-status").contains("; stored"));
    say(&format!("F20: READONLY {refused}; 4 answered and not stored; found again"));
}
