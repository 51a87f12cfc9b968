//! Fail-over: to a replica that lags, by hand, and to one that real Sentinels elect (F16, F20).

use std::time::{Duration, Instant};

use super::{WAIT_MAX, asks, counting_proxy, run_arrives};
use crate::support::http;
use crate::support::lone::{Lone, Spec};
use crate::support::redis::{Options, RedisServer};
use crate::support::tcp_proxy::{Mode, TcpProxy};
use crate::support::{say, until};

async fn replica_of(leader: std::net::SocketAddr) -> RedisServer {
    let port = leader.port().to_string();
    let replica = RedisServer::with(Options::args(&["--replicaof", "127.0.0.1", &port])).await;
    until("the replica is in step", WAIT_MAX, async || replica.info("master_link_status") == "up").await;
    replica
}

/// F16, I3: the lease never reaches the replica that is promoted. In the store's new life another holder gets a lease
/// with the same counter. Only the nonce differs, and the store refuses the old holder.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f16_after_a_failover_to_a_lagging_replica_the_nonce_decides() {
    let (proxy, mut primary) = (counting_proxy().await, RedisServer::start().await);
    let copying = TcpProxy::start(primary.addr()).await;
    let replica = replica_of(copying.addr()).await;
    let wire = TcpProxy::start(primary.addr()).await;
    let node = Lone::start(&Spec::on(&format!("redis://{}", wire.addr())).behind(proxy.addr())).await;
    assert!(node.ask(&asks("f16 before", 0).1).await.header("cache-status").contains("; stored"));
    until("it is copied", WAIT_MAX, async || replica.keys("hopcache:*:e").len() == 1).await;

    copying.set(Mode::Silent);
    let (statement, request) = asks("f16", 0);
    proxy.delay_runs(&statement, Duration::from_secs(2));
    let client = tokio::spawn(http::crowd(vec![(node.addrs.client, request.clone())]));
    run_arrives(&proxy, &statement, 1).await;
    let name = primary.keys("hopcache:*:l").remove(0);
    let record = primary.get(&name);
    assert!(replica.keys("hopcache:*:l").is_empty(), "the replica does not lag");
    primary.kill();
    assert_eq!(replica.tell("REPLICAOF NO ONE"), "+OK");
    // "life:counter:nonce:database:holder": the same counter, drawn again, with another nonce.
    let life = &replica.info("master_replid")[..16];
    let mut parts: Vec<&str> = record.splitn(4, ':').collect();
    let other = "0123456789abcdef0123456789abcdef";
    assert_ne!(std::mem::replace(&mut parts[0], life), life);
    assert_ne!(std::mem::replace(&mut parts[2], other), other);
    let theirs = parts.join(":");
    assert_eq!(replica.tell(&format!("SET {name} {theirs} PX 60000")), "+OK");
    wire.point_at(replica.addr());
    node.wait_until_well().await;
    assert!(proxy.seen(&statement)[0].answered.is_none(), "the old holder still reads");

    let reply = client.await.unwrap().remove(0).unwrap();
    assert_eq!(reply.value(), "f16 0.", "its client is answered: {reply}");
    until("its late commit is fenced", WAIT_MAX, async || {
        node.count(super::COMMITS, "outcome=\"fenced\"").await == 1.0
    })
    .await;
    assert_eq!(replica.get(&name), theirs, "the other lease stands");
    assert_eq!(replica.keys("hopcache:*:e").len(), 1, "nothing landed late");
    assert_eq!(replica.tell(&format!("DEL {name}")), ":1");
    let again = node.ask(&request).await;
    assert!(again.header("cache-status").contains("; stored"), "{again}");
    assert_eq!(proxy.runs(&statement), 2, "1 + 1 lease that the store lost");
    say("F16: lagging replica promoted, same counter, other nonce: late commit fenced, then stored again");
}

/// F16, F20: three Sentinels see the primary die and elect the replica, and the node follows by itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f16_an_election_by_real_sentinels_is_followed() {
    let mut primary = RedisServer::start().await;
    let replica = replica_of(primary.addr()).await;
    let mut sentinels = Vec::new();
    for _ in 0..3 {
        sentinels.push(RedisServer::sentinel(primary.addr(), 2).await);
    }
    until("the Sentinels know each other and the replica", WAIT_MAX, async || {
        let knows = |sentinel: &RedisServer| {
            sentinel.tell("SENTINEL CKQUORUM main").starts_with("+OK 3")
                && sentinel.info("master0").contains("slaves=1")
        };
        sentinels.iter().all(knows)
    })
    .await;
    let hosts: Vec<String> = sentinels.iter().map(|sentinel| sentinel.addr().to_string()).collect();
    let node = Lone::start(&Spec::on(&format!("redis+sentinel://{}/main", hosts.join(",")))).await;
    assert!(node.ask(&asks("f16 sentinel", 0).1).await.header("cache-status").contains("; stored"));
    until("it is copied", WAIT_MAX, async || replica.keys("hopcache:*:e").len() == 1).await;

    primary.kill();
    let killed = Instant::now();
    let (mut asked, mut slowest, mut degraded) = (0, Duration::ZERO, 0);
    let stored_after = loop {
        let reply = node.ask(&asks("f16 election", asked).1).await;
        assert_eq!(reply.value(), format!("f16 election {asked}."), "{reply}");
        asked += 1;
        slowest = slowest.max(reply.took);
        if reply.header("cache-status").contains("; stored") {
            break killed.elapsed();
        }
        degraded += 1;
        assert!(killed.elapsed() < WAIT_MAX, "the new primary was not found: {}", node.log());
        // tidy: poll interval
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert!(replica.info("role").starts_with("master"), "the Sentinels elected the replica");
    assert!(degraded > 0, "there was a time without a primary");
    node.wait_until_well().await;
    replica.committed().await;
    assert!(replica.keys("hopcache:*:e").len() >= 2, "stored at the new primary");
    say(&format!(
        "F16, Sentinel election: {asked} requests, {degraded} not stored, 0 failed, slowest {} ms; stored again {} ms after the kill",
        slowest.as_millis(),
        stored_after.as_millis()
    ));
}
