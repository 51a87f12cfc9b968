//! F55, I4: a node is stopped, a purge cannot tell it, and its connection to Redis is dead when it goes on. It serves
//! nothing that was purged, before a look at the invalidation log has succeeded.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;

use super::WAIT_MAX;
use crate::support::cluster::{Cluster, Plan};
use crate::support::http::{self, Reply};
use crate::support::process::NodeProcess;
use crate::support::redis::RedisServer;
use crate::support::scripted_neo4j::ScriptedNeo4j;
use crate::support::tcp_proxy::{Mode, TcpProxy};
use crate::support::{environment, say, until};

const STOPPED: Duration = Duration::from_millis(3_500);
/// Answers that are seen at least while no look can succeed. The first of them waits for one.
const ANSWERS: usize = 20;

/// Two nodes on a Redis of their own and a Neo4j that does what the test says. The first one's way to Redis is a proxy's.
async fn two_nodes() -> (Cluster, ScriptedNeo4j, TcpProxy) {
    let password = environment("HOPCACHE_TEST_NEO4J_PASSWORD");
    let neo4j = ScriptedNeo4j::start(&[("neo4j", password.as_str())], Duration::ZERO).await;
    let redis = RedisServer::start().await;
    let (uri, way) = (redis.uri(), TcpProxy::start(redis.addr()).await);
    let plan = Plan {
        started: 2,
        seeded: 2,
        upstream: Some(neo4j.addr()),
        first_store: Some(way.addr()),
        ..Plan::default()
    };
    (Cluster::on(plan, redis, &uri).await, neo4j, way)
}

/// A statement of the first node whose answers say the version that the test has set, and its request.
async fn owned_by_the_first(cluster: &Cluster) -> (String, Arc<[u8]>) {
    for k in 0..200 {
        let statement = format!("RETURN 'VERSION f55 {k}.' AS what");
        if cluster.owner(&statement, &json!({})).await == 0 {
            let request = http::query(&statement, &json!({}));
            return (statement, request);
        }
    }
    panic!("the first node owns none of 200 keys");
}

async fn says_that_its_store_is_away(node: &NodeProcess) -> bool {
    node.admin("/readyz").await.unwrap().json()["degraded"] == json!(["store"])
}

/// An answer as a line: when it came, its value, and where from.
fn shown(since: Instant, reply: &Reply) -> String {
    let status = reply.header("cache-status");
    format!("{:>5} ms  {}  {}", since.elapsed().as_millis(), reply.value(), status)
}

/// SIGSTOP · purge by the other node (200, one unreached) · CLIENT KILL · SIGCONT · polling, while Redis does not answer the
/// new connection either · Redis answers · polling.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f55_a_look_that_failed_after_a_pause_is_no_look() {
    let (cluster, neo4j, way) = two_nodes().await;
    let (sleeper, other) = (&cluster.nodes[0], &cluster.nodes[1]);
    let (statement, request) = owned_by_the_first(&cluster).await;
    neo4j.orders().set_version(1);
    assert_eq!(sleeper.ask(&request).await.value(), "1");
    assert!(sleeper.ask(&request).await.is_hit(), "it is in the memory of the node that will sleep");
    let key = sleeper.explain(&statement, &json!({})).await["query_key"].clone();

    sleeper.signal("STOP");
    let stopped = Instant::now();
    neo4j.orders().set_version(2);
    let purged = other.order("/admin/v1/purge", &json!({ "query_key": key })).await;
    assert_eq!((&purged["entries"], &purged["unreached"]), (&json!(1), &json!(1)), "{purged}");
    let killed = cluster.redis.tell("CLIENT KILL TYPE normal");
    assert_ne!(killed, ":0", "Redis killed no connection");
    until("it has been stopped for long", WAIT_MAX, async || stopped.elapsed() >= STOPPED).await;
    let connects = way.connects();
    way.set(Mode::Silent);
    sleeper.signal("CONT");

    let (since, mut lines, mut purged_values) = (Instant::now(), Vec::new(), 0);
    let mut seen = |since: Instant, reply: &Reply| {
        purged_values += usize::from(reply.value() == "1");
        lines.push(shown(since, reply));
    };
    for _ in 0..ANSWERS {
        seen(since, &sleeper.ask(&request).await);
    }
    until("a look failed", WAIT_MAX, async || says_that_its_store_is_away(sleeper).await).await;
    seen(since, &sleeper.ask(&request).await);
    assert!(way.connects() > connects, "its connection to Redis was not dead");
    way.set(Mode::Pass);
    until("hits from the store again", WAIT_MAX, async || {
        let reply = sleeper.ask(&request).await;
        seen(since, &reply);
        reply.is_hit() && !reply.header("cache-status").contains("detail=degraded")
    })
    .await;
    say(&format!(
        "F55: stopped for {} ms during a purge ({purged}), connections killed ({killed}); {} answers since SIGCONT, {} of \
         them what was purged:\n{}",
        STOPPED.as_millis(),
        lines.len(),
        purged_values,
        lines.join("\n")
    ));
    assert_eq!(purged_values, 0, "what was purged was served after the pause");
    for node in &cluster.nodes {
        node.wait_for_members(2).await;
    }
}
