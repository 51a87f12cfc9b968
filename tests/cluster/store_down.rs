//! Redis is killed: flights still collapse, requests are answered, nodes stay ready and report the failure.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::cluster::{Cluster, Plan};
use crate::support::http;
use crate::support::pace::Slowness;
use crate::support::redis::RedisServer;
use crate::support::tcp_proxy::{Mode, TcpProxy};
use crate::support::{say, until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_redis_requests_are_answered_and_collapse() {
    let mut cluster = Cluster::start().await;
    cluster.redis.kill();
    cluster.proxy.delay_runs("no store", Duration::from_secs(1));
    let request = http::query("RETURN 'no store' AS what", &json!({}));
    let clients = cluster.clients();
    let crowd = (0..150).map(|client| (clients[client % 3], request.clone())).collect();
    let mut slowest = Duration::ZERO;
    for reply in http::crowd(crowd).await {
        let reply = reply.unwrap();
        assert_eq!(reply.value(), "no store", "{reply}");
        slowest = slowest.max(reply.took);
    }
    assert_eq!(cluster.proxy.runs("no store"), 1, "the owner's flight did not collapse");
    say(&format!("store down: 150 clients, 1 run of 1,000 ms, slowest {} ms", slowest.as_millis()));

    for node in &cluster.nodes {
        until("the node says that its store is degraded", Duration::from_secs(5), async || {
            let ready = node.admin("/readyz").await.unwrap();
            assert_eq!(ready.status, 200, "{ready}");
            ready.json()["degraded"] == json!(["store"])
        })
        .await;
        assert_eq!(node.metric("hopcache_degraded", "part=\"store\"").await, Some(1.0));
        let why = node.admin("/readyz").await.unwrap().json()["why"]["store"].to_string();
        assert!(why.contains("cannot be reached"), "{why}");
        until("its breaker opens", Duration::from_secs(10), async || {
            node.metric("hopcache_breaker_transitions_total", "to=\"open\"")
                .await
                .is_some_and(|count| count >= 1.0)
        })
        .await;
    }

    cluster.redis.restart().await;
    for node in &cluster.nodes {
        until("the node finds its store again", Duration::from_secs(10), async || {
            node.admin("/readyz").await.unwrap().json()["degraded"] == json!([])
        })
        .await;
        let closed = node.metric("hopcache_breaker_transitions_total", "to=\"closed\"").await;
        assert!(closed.is_some_and(|count| count >= 1.0), "{}: {closed:?}", node.name);
    }
    let again = http::query("RETURN 'the store is back' AS what", &json!({}));
    let reply = cluster.nodes[0].ask(&again).await;
    assert!(reply.header("cache-status").contains("; stored"), "{reply}");
    cluster.redis.committed().await;
    assert_eq!(cluster.redis.keys("hopcache:*:e").len(), 1);
}

/// F17: a store that hangs (SIGSTOP) costs its deadline, not the request.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hanging_redis_hangs_nobody() {
    let cluster = Cluster::start().await;
    let most = Slowness::of(&cluster.clients()).await.bound(Duration::from_secs(3));
    cluster.redis.signal("STOP");
    let mut slowest = Duration::ZERO;
    for k in 0..20 {
        let request = http::query("RETURN $k AS k, 'hanging store' AS what", &json!({ "k": k }));
        let reply = cluster.nodes[k % 3].ask(&request).await;
        assert_eq!(reply.value(), k, "{reply}");
        slowest = slowest.max(reply.took);
    }
    cluster.redis.signal("CONT");
    say(&format!("store hangs: 20 requests, slowest {} ms", slowest.as_millis()));
    assert!(slowest < most, "{slowest:?}, {most:?} at most");
}

/// How long the owner keeps its run's result without a store (docs/decisions.md, "Commit").
const DEGRADED_TTL: Duration = Duration::from_secs(2);

/// F7: one owner's store is silent, its peers' is not. They ask the owner, and it runs once in a degraded TTL for all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_owner_without_its_store_runs_once_for_all() {
    let redis = RedisServer::start().await;
    let (uri, way) = (redis.uri(), TcpProxy::start(redis.addr()).await);
    let plan = Plan { first_store: Some(way.addr()), ..Plan::default() };
    let cluster = Cluster::on(plan, redis, &uri).await;
    let statement = "RETURN $k AS k, 'cut owner' AS what";
    let request = http::query(statement, &cluster.owned_by(0, statement).await);
    way.set(Mode::Silent);
    until("the owner finds that its store is silent", Duration::from_secs(20), async || {
        cluster.nodes[0].ask(&http::query("RETURN rand() AS any", &json!({}))).await;
        cluster.nodes[0]
            .ask(&http::query("RETURN $k AS k", &cluster.owned_by(0, "RETURN $k AS k").await))
            .await;
        cluster.nodes[0].admin("/readyz").await.unwrap().json()["degraded"] == json!(["store"])
    })
    .await;
    cluster.proxy.delay_runs("cut owner", Duration::from_millis(500));
    let clients = cluster.clients();
    for crowd in 1..=3 {
        let (runs_before, began) = (cluster.proxy.runs("cut owner"), Instant::now());
        let asked = (0..90).map(|client| (clients[client % 3], request.clone())).collect();
        for reply in http::crowd(asked).await {
            let reply = reply.unwrap();
            assert_eq!(reply.status, 202, "{reply}");
            assert!(reply.header("cache-status").contains("detail=degraded"), "{reply}");
        }
        let (runs, took) = (cluster.proxy.runs("cut owner") - runs_before, began.elapsed());
        say(&format!("F7: owner without store, crowd {crowd} of 90: {runs} runs in {} ms", took.as_millis()));
        let most = 1 + took.as_millis() / DEGRADED_TTL.as_millis();
        assert!(runs as u128 <= most, "{runs} runs in {took:?}");
    }
    assert!(cluster.redis.keys("hopcache:*:e").is_empty(), "its peers ran beside it");
    way.set(Mode::Pass);
    cluster.nodes[0].wait_for_members(3).await;
}
