//! A node was stopped during a purge. It re-checks its copies before it serves.
//!
//! `HOPCACHE_TEST_ROUNDS` asks for more than one sleep.

use std::time::{Duration, Instant};

use serde_json::json;

use super::scripted_cluster::{ScriptedCluster, WAIT_MAX, lines, versioned};
use crate::support::redis::RedisServer;
use crate::support::tcp_proxy::{Mode, TcpProxy};
use crate::support::{http, say, size, until};

/// Below the deadline of a command.
const ANSWER_DELAY: Duration = Duration::from_millis(60);
const STOPPED: Duration = Duration::from_millis(2_500);

/// The requests wait in its sockets, so it reads them first when it goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_slept_through_a_purge_serves_nothing_of_before() {
    let redis = RedisServer::start().await;
    let wire = TcpProxy::start(redis.addr()).await;
    let store = format!("redis://{}", wire.addr());
    let cluster = ScriptedCluster::on(3, lines("10m", 0.5, "10m", ""), "", redis, &store).await;
    for round in 0..size("HOPCACHE_TEST_ROUNDS", 1) {
        let (statement, request) = versioned(&format!("paused {round}"));
        cluster.neo4j.orders().set_version(1);
        let owner = cluster.owner(&statement, &json!({})).await;
        let (sleeper, other) = (&cluster.nodes[owner], &cluster.nodes[(owner + 1) % 3]);
        assert_eq!(sleeper.ask(&request).await.value(), "1");
        assert!(sleeper.ask(&request).await.is_hit(), "it is in the memory of the node that will sleep");
        let key = sleeper.explain(&statement, &json!({})).await["query_key"].clone();
        sleeper.signal("STOP");
        let stopped = Instant::now();
        cluster.neo4j.orders().set_version(2);
        let purged = other.order("/admin/v1/purge", &json!({ "query_key": key })).await;
        let crowd = vec![(sleeper.addrs.client, request.clone()); 20];
        let first = tokio::spawn(http::crowd(crowd));
        until("it has been stopped for long", WAIT_MAX, async || stopped.elapsed() > STOPPED).await;
        // The store's news of the purge comes later than the requests, which have already arrived.
        wire.set(Mode::Delay(ANSWER_DELAY));
        sleeper.signal("CONT");
        let mut slowest = Duration::ZERO;
        for reply in first.await.unwrap() {
            let reply = reply.unwrap();
            assert_eq!(reply.value(), "2", "round {round}: the purged value: {reply}");
            slowest = slowest.max(reply.took);
        }
        say(&format!(
            "stopped for {} ms during a purge ({purged}): 20 first answers, none of before; slowest {} ms from its sending",
            STOPPED.as_millis(),
            slowest.as_millis()
        ));
        wire.set(Mode::Pass);
        for node in &cluster.nodes {
            node.wait_for_members(3).await;
        }
    }
}
