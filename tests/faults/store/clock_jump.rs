//! F24: the clock of a real Redis jumps an hour forward, and some seconds back. A library between redis-server and
//! libc's clock makes the jump (`support/moved_clock.c`, built here with `cc`). Expiry and TIME of Redis follow it.

use std::time::{Duration, Instant};

use super::{COMMITS, WAIT_MAX, asks, counting_proxy, run_arrives};
use crate::support::lone::{Lone, Spec};
use crate::support::moved_clock::MovedClock;
use crate::support::redis::{Options, RedisServer};
use crate::support::{http, say, until};

async fn redis_on(clock: &MovedClock) -> RedisServer {
    RedisServer::with(Options { preload: Some(clock.preload()), ..Options::default() }).await
}

/// Seconds that Redis' clock is off this machine's.
fn seconds_off(redis: &RedisServer) -> i64 {
    let theirs: i64 = redis.info("server_time_usec").parse().unwrap();
    theirs / 1_000_000 - i64::try_from(std::time::UNIX_EPOCH.elapsed().unwrap().as_secs()).unwrap()
}

/// An hour forward: entries and leases are gone early. One more run for each key, a late commit is refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f24_a_jump_forward_expires_early() {
    let (proxy, clock) = (counting_proxy().await, MovedClock::new());
    let redis = redis_on(&clock).await;
    let mut node = Lone::start(&Spec::on(&redis.uri()).behind(proxy.addr())).await;
    let (kept, kept_request) = asks("f24 kept", 0);
    node.ask(&kept_request).await;
    redis.committed().await;
    let (slow, slow_request) = asks("f24 slow", 0);
    proxy.delay_runs(&slow, Duration::from_millis(700));
    let client = tokio::spawn(http::crowd(vec![(node.addrs.client, slow_request.clone())]));
    run_arrives(&proxy, &slow, 1).await;
    assert_eq!((redis.keys("hopcache:*:e").len(), redis.keys("hopcache:*:l").len()), (1, 1));
    clock.move_by(3_600_000);
    let off = seconds_off(&redis);
    assert!((3_599..=3_601).contains(&off), "the clock did not jump: {off}");
    until("the earlier entry has expired", WAIT_MAX, async || redis.keys("hopcache:*:[el]").is_empty()).await;
    let late = client.await.unwrap().remove(0).unwrap();
    assert_eq!(late.value(), "f24 slow 0.");
    until("its late commit is fenced", WAIT_MAX, async || {
        node.count(COMMITS, "outcome=\"fenced\"").await == 1.0
    })
    .await;
    assert!(node.ask(&kept_request).await.is_hit(), "a memory copy is on the node's own clock");
    node.again().await;
    for (statement, request) in [(kept, kept_request), (slow, slow_request)] {
        let reply = node.ask(&request).await;
        assert!(reply.header("cache-status").contains("; stored"), "{reply}");
        assert_eq!(proxy.runs(&statement), 2, "1 + 1 lapse or early expiry");
    }
    say(&format!(
        "F24: Redis' clock {off} s ahead: entry and lease expired early, late commit fenced, 2 runs each"
    ));
}

/// Three seconds back: an entry lives at most three seconds longer, and counters do not go back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f24_after_a_jump_back_staleness_is_bounded_by_the_jump() {
    const JUMP: Duration = Duration::from_secs(3);
    // TTL 2 s and half of it as grace; no jitter.
    const LIFE: Duration = Duration::from_secs(3);
    let (proxy, clock) = (counting_proxy().await, MovedClock::new());
    let redis = redis_on(&clock).await;
    let entry = "ttl = \"2s\"\ngrace = 0.5\nttl_jitter = 0.0\nstale_if_error = \"0s\"".to_owned();
    let mut node = Lone::start(&Spec { entry, ..Spec::on(&redis.uri()).behind(proxy.addr()) }).await;
    let (statement, request) = asks("f24 back", 0);
    let asked = Instant::now();
    let before = node.ask(&request).await;
    assert!(before.header("cache-status").contains("; stored"), "{before}");
    redis.committed().await;
    let token = counter(&node, &statement).await;
    clock.move_by(-3_000);
    let off = seconds_off(&redis);
    assert!((-4..=-2).contains(&off), "the clock did not jump: {off}");
    node.again().await;
    assert!(node.ask(&request).await.is_hit(), "still in Redis, which counts on from an earlier time");
    // Each look is by a node that kept nothing in its memory: Redis alone decides.
    until("it is gone from Redis", LIFE + JUMP + WAIT_MAX, async || redis.keys("hopcache:*:e").is_empty())
        .await;
    let lived = asked.elapsed();
    assert!(lived > LIFE, "the jump had no effect: {lived:?}");
    assert!(lived < LIFE + JUMP + Duration::from_secs(2), "it outlived the jump: {lived:?}");
    node.again().await;
    let anew = node.ask(&request).await;
    assert!(anew.header("cache-status").contains("; stored"), "{anew}");
    redis.committed().await;
    let later = counter(&node, &statement).await;
    say(&format!(
        "F24: Redis' clock {off} s: entry of {} s lived {} ms (bound {} ms); tokens {token} then {later}",
        LIFE.as_secs(),
        lived.as_millis(),
        (LIFE + JUMP).as_millis()
    ));
}

/// Token under which the entry of a statement was stored, as `explain` says it.
async fn counter(node: &Lone, statement: &str) -> String {
    node.explain(statement, &serde_json::json!({})).await["entry"]["token"].to_string()
}
