//! Redis is killed: flights still collapse, requests are answered, nodes stay ready and say what is wrong.

use std::time::Duration;

use serde_json::json;

use crate::support::cluster::Cluster;
use crate::support::http;
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
    assert_eq!(cluster.redis.keys("hopcache:*:e").len(), 1);
}

/// F17: a store that hangs (SIGSTOP) costs its deadline, not the request.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hanging_redis_hangs_nobody() {
    let cluster = Cluster::start().await;
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
    assert!(slowest < Duration::from_secs(3), "{slowest:?}");
}
