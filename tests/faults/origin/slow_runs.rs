//! F26: Neo4j is slower than the deadline. One run for all waiters; the node destroys its connection and Neo4j stops
//! the run; the key is held back for a while. An abandoned write may still be carried out, and the answer says so.

use std::time::{Duration, Instant};

use super::{ask, assert_failed, assert_nothing_stored, counted, crowd, one_node, slowest};
use crate::support::cluster::{OwnLabel, at_neo4j};
use crate::support::{say, until};

const TIMED_OUT: &str = "Hopcache.ClientError.OriginTimedOut";
const TIMEOUT: Duration = Duration::from_millis(1_500);
const SLACK: Duration = Duration::from_secs(4);

/// Transactions of a statement, by Neo4j's own word.
async fn running(mark: &str) -> u64 {
    let watch = format!(
        "SHOW TRANSACTIONS YIELD currentQuery WHERE currentQuery STARTS WITH 'UNWIND' AND currentQuery CONTAINS '{mark}' RETURN count(*) AS n"
    );
    at_neo4j(&watch).await.value().as_u64().unwrap()
}

/// F26, I2: 50 clients wait for a statement that would run for hours.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_run_over_its_deadline_is_one_run_for_all_and_ends_at_neo4j() {
    let cluster = one_node("ttl = \"10m\"", "timeout = \"1500ms\"").await;
    let mark = OwnLabel::new("Slow").0.clone();
    let hours =
        format!("UNWIND range(1, 10000000) AS a UNWIND range(1, 10000000) AS b RETURN sum(a * b) AS {mark}");
    let waiters = async { crowd(&cluster, &hours, 50).await };
    let seen_running = until("Neo4j runs it", TIMEOUT + SLACK, async || running(&mark).await == 1);
    let (replies, ()) = tokio::join!(waiters, seen_running);
    let answered_at = Instant::now();
    replies.iter().for_each(|reply| assert_failed(reply, 504, TIMED_OUT));
    assert_eq!(cluster.proxy.runs(&mark), 1, "a run for each waiter in turn");
    assert!(slowest(&replies) < TIMEOUT + SLACK, "{:?}", slowest(&replies));
    let connection = cluster.proxy.seen(&mark)[0].connection;
    until("the connection is destroyed", Duration::from_secs(2), async || !cluster.proxy.is_open(connection))
        .await;
    until("Neo4j has stopped", Duration::from_secs(5), async || running(&mark).await == 0).await;
    say(&format!(
        "F26: 50 waiters, 1 run, fastest {} ms, slowest {} ms; Neo4j had stopped {} ms after the answers",
        replies.iter().map(|reply| reply.took).min().unwrap().as_millis(),
        slowest(&replies).as_millis(),
        answered_at.elapsed().as_millis()
    ));
    assert_eq!(counted(&cluster, "hopcache_origin_errors_total", "timed_out").await, 1.0);
    assert_nothing_stored(&cluster).await;
    // One slow query is not a Neo4j that is away.
    assert_eq!(super::degraded(&cluster).await, serde_json::json!([]));
    assert_eq!(counted(&cluster, "hopcache_breaker_transitions_total", "origin").await, 0.0);
    assert_eq!(ask(&cluster, "RETURN 'F26 the next' AS what").await.value(), "F26 the next");
}

/// F26, I6: a write whose deadline passes is carried out once. The answer says that it may have been.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_over_its_deadline_says_that_it_may_be_carried_out_and_is_not_repeated() {
    let label = OwnLabel::new("LateWrite");
    let cluster = one_node("ttl = \"10m\"", "timeout = \"3s\"").await;
    let write = format!("CREATE (n:{}) RETURN 1 AS n", label.0);
    cluster.proxy.trouble(&label.0, crate::support::bolt_proxy::Trouble::StallAfter(0), usize::MAX);
    let reply = ask(&cluster, &write).await;
    assert_failed(&reply, 504, TIMED_OUT);
    let message = reply.json()["errors"][0]["message"].as_str().unwrap().to_owned();
    assert!(message.contains("may have been carried out"), "{message}");
    let connection = cluster.proxy.seen(&label.0)[0].connection;
    until("the connection is destroyed", Duration::from_secs(2), async || !cluster.proxy.is_open(connection))
        .await;
    let count = format!("MATCH (n:{}) RETURN count(n) AS n", label.0);
    assert_eq!(at_neo4j(&count).await.value(), 1, "it was carried out");
    assert_eq!(cluster.proxy.runs(&format!("CREATE (n:{}", label.0)), 1, "it was sent again");
    // The same write again is the client's own decision, and is not held back.
    cluster.proxy.heal();
    assert_eq!(ask(&cluster, &write).await.status, 202);
    assert_eq!(at_neo4j(&count).await.value(), 2);
}
