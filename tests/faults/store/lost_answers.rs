//! Answers that are lost, cut in their middle, silent connections (F21, F22), and large bodies on a slow line (F17,
//! F29).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;

use super::{COMMITS, WAIT_MAX, asks, counting_proxy, run_arrives};
use crate::support::lone::{Lone, Spec};
use crate::support::redis::RedisServer;
use crate::support::tcp_proxy::{Fate, Mode, TcpProxy};
use crate::support::{http, say, until};

/// F21: the lease was granted and the answer lost: never assumed not held, and known for our own when it is met again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f21_a_grant_whose_answer_is_lost_is_still_ours() {
    let (proxy, redis) = (counting_proxy().await, RedisServer::start().await);
    let wire = TcpProxy::start(redis.addr()).await;
    let node = Lone::start(&Spec::on(&format!("redis://{}", wire.addr())).behind(proxy.addr())).await;
    assert!(node.ask(&asks("f21 warm", 0).1).await.header("cache-status").contains("; stored"));
    for (k, fate) in [Fate::Lost, Fate::CutAfter(0), Fate::CutAfter(9)].into_iter().enumerate() {
        let (statement, request) = asks("f21", k);
        let key = node.explain(&statement, &json!({})).await["query_key"].as_str().unwrap().to_owned();
        let before = redis.calls()["evalsha"];
        wire.doom(&key, fate);
        let reply = node.ask(&request).await;
        assert_eq!(reply.value(), format!("f21 {k}."));
        assert_eq!(wire.broken(), k as u64 + 1, "an answer was lost");
        redis.committed().await;
        let scripts = redis.calls()["evalsha"] - before;
        assert!(scripts >= 3, "granted, asked again, committed: {scripts} {reply} {}", node.log());
        assert_eq!(proxy.runs(&statement), 1, "{fate:?}: the store was there all the time (I1)");
        assert!(reply.header("cache-status").contains("; stored"), "{fate:?}: {reply}");
        assert!(node.ask(&request).await.is_hit());
    }
    // The same of a commit's answer: stored or not, the client has its value, and no second run is needed.
    let (statement, request) = asks("f21 commit", 0);
    proxy.delay_runs(&statement, Duration::from_millis(300));
    let key = node.explain(&statement, &json!({})).await["query_key"].as_str().unwrap().to_owned();
    let client = tokio::spawn(http::crowd(vec![(node.addrs.client, request.clone())]));
    run_arrives(&proxy, &statement, 1).await;
    wire.doom(&key, Fate::Lost);
    let reply = client.await.unwrap().remove(0).unwrap();
    assert_eq!(reply.value(), "f21 commit 0.");
    until("the node knows what has become of it", WAIT_MAX, async || {
        node.count(COMMITS, "outcome=\"stored\"").await == 5.0
    })
    .await;
    assert_eq!(wire.broken(), 4, "the commit's answer was lost");
    assert_eq!(redis.keys(&format!("hopcache:*{key}*:e")).len(), 1, "the commit was carried out");
    let fenced = node.count(COMMITS, "outcome=\"fenced\"").await;
    assert_eq!(fenced, 0.0, "its own first commit fenced the second");
    say(
        "F21: 3 grants whose answers were lost or cut: 1 run each, stored; 1 commit whose answer was lost: kept in Redis",
    );
}

/// F22: connections cut in the middle of replies, and gone silent, while many keys are read: every answer is its key's.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn f22_replies_are_never_mixed() {
    const KEYS: usize = 60;
    let (proxy, redis) = (counting_proxy().await, RedisServer::start().await);
    let wire = TcpProxy::start(redis.addr()).await;
    let mut spec = Spec::on(&format!("redis://{}", wire.addr())).behind(proxy.addr());
    // Too little memory to keep entries, so every request asks the store.
    spec.node += "\nmemory = \"1MiB\"";
    let node = Lone::start(&spec).await;
    // Bulk replies of 1 to 90 KB: on both connections, and longer than one packet.
    let ask = |k: usize| {
        let length = 1_000 + 1_500 * k;
        http::query(
            &format!(
                "RETURN 'f22 {k}.' AS what, reduce(s = '', i IN range(1, {length} / 10) | s + 'f22 {k:05}.') AS body"
            ),
            &json!({}),
        )
    };
    let requests: Arc<Vec<_>> = Arc::new((0..KEYS).map(ask).collect());
    let (answers, hits) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let hammer = |seconds: u64| {
        let (requests, answers, hits) = (Arc::clone(&requests), Arc::clone(&answers), Arc::clone(&hits));
        let client = node.addrs.client;
        async move {
            let until = Instant::now() + Duration::from_secs(seconds);
            let mut tasks = tokio::task::JoinSet::new();
            for lane in 0..8 {
                let (requests, answers, hits) =
                    (Arc::clone(&requests), Arc::clone(&answers), Arc::clone(&hits));
                tasks.spawn(async move {
                    let mut k = lane * 7;
                    while Instant::now() < until {
                        k = (k * 31 + 17) % KEYS;
                        let reply = http::ask(client, &requests[k]).await.unwrap();
                        assert_eq!(reply.value(), format!("f22 {k}."), "another key's answer");
                        let body = reply.json()["data"]["values"][0][1].as_str().unwrap().to_owned();
                        let part = format!("f22 {k:05}.");
                        assert_eq!(body.replace(&part, ""), "", "another key's bytes in the answer of {k}");
                        answers.fetch_add(1, Ordering::Relaxed);
                        hits.fetch_add(u64::from(reply.is_hit()), Ordering::Relaxed);
                    }
                });
            }
            tasks.join_all().await;
        }
    };
    for (k, request) in requests.iter().enumerate() {
        assert_eq!(node.ask(request).await.value(), format!("f22 {k}."));
    }
    hammer(1).await;
    let calm = hits.load(Ordering::Relaxed);
    assert!(calm > 0, "nothing was read back");
    wire.cut_every(5);
    hammer(2).await;
    wire.cut_every(0);
    let cut = wire.broken();
    assert!(cut >= 5, "only {cut} replies were cut");
    wire.set(Mode::Silent);
    hammer(1).await;
    wire.set(Mode::Pass);
    hammer(1).await;
    node.wait_until_well().await;
    assert_eq!(node.log_count("failed its checksum"), 0, "an entry of another key: {}", node.log());
    say(&format!(
        "F22: {} answers ({} hits), {cut} replies cut in their middle, 1 s of silence, {} connects: every answer its key's",
        answers.load(Ordering::Relaxed),
        hits.load(Ordering::Relaxed),
        wire.connects()
    ));
}

/// F17, F29: an 8 MiB body on a line of 4 MB/s does not delay the renewals of another lease.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f17_a_long_body_on_a_slow_line_delays_no_renewal() {
    let (proxy, redis) = (counting_proxy().await, RedisServer::start().await);
    let wire = TcpProxy::start(redis.addr()).await;
    let node = Lone::start(&Spec::on(&format!("redis://{}", wire.addr())).behind(proxy.addr())).await;
    wire.requests_per_second(4 << 20);
    let (slow, request) = asks("f17 renewed", 0);
    // The lease lasts 5 s: without renewals it is gone before the run is.
    proxy.delay_runs(&slow, Duration::from_millis(5_600));
    let client = tokio::spawn(http::crowd(vec![(node.addrs.client, request)]));
    run_arrives(&proxy, &slow, 1).await;
    let (mut bodies, mut kept) = (0, 0_u32);
    while proxy.seen(&slow)[0].answered.is_none() {
        // Random, so that compression does not make it small.
        let text = format!(
            "RETURN {bodies} AS k, [i IN range(1, 400000) | toInteger((i + {bodies}) * 7919 % 2147483647) * 131] AS body"
        );
        let reply = node.ask(&http::query(&text, &json!({}))).await;
        assert_eq!(reply.value(), bodies);
        bodies += 1;
        kept += u32::from(reply.header("cache-status").contains("; stored"));
    }
    let reply = client.await.unwrap().remove(0).unwrap();
    assert!(reply.header("cache-status").contains("; stored"), "its lease was lost: {reply}");
    until("it is stored as the bodies are", WAIT_MAX, async || {
        node.count(COMMITS, "outcome=\"stored\"").await == f64::from(kept + 1)
    })
    .await;
    let slept = wire.slept();
    assert!(slept > Duration::from_millis(500), "no body was slow: {slept:?}");
    say(&format!(
        "F17, F29: {bodies} bodies of 5 MB on 4 MB/s ({kept} stored in time, {} ms on the line), a lease of 5 s renewed over a run of 5.6 s and stored",
        slept.as_millis()
    ));
}
