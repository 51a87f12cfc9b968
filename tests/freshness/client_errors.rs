//! No stale-if-error after an error of the statement or of the client: the error is the answer, and the earlier entry
//! is not served again (F27, I11).

use std::time::Duration;

use super::scripted_cluster::{ScriptedCluster, WAIT_MAX, code, lines, versioned};
use crate::support::scripted_orders::Fate;
use crate::support::until;

const STATEMENT: &str = "Neo.ClientError.Statement.EntityNotFound";
const RIGHTS: &str = "Neo.ClientError.Security.Forbidden";

/// The run that meets the error: a refresh of a stale entry, or a run after the end of grace.
const MET_BY_REFRESH: f64 = 10.0;
const MET_BY_MISS: f64 = 0.0;

async fn an_error_is_the_answer(error_code: &'static str, grace: f64) {
    let cluster = ScriptedCluster::start(1, lines("1s", grace, "10m", ""), "").await;
    let (statement, request) = versioned("said");
    cluster.neo4j.orders().set_version(1);
    cluster.warm(&request).await;
    cluster.until_expired_or_gone(&statement).await;
    cluster.neo4j.orders().doom(&statement, Fate::Fail(error_code), usize::MAX);
    // Stale while the refresh that gets the error runs, and not after it.
    until("clients get the error, long before the end of grace", Duration::from_secs(5), async || {
        let reply = cluster.ask(&request).await;
        let is_told = reply.status != 202;
        assert!(is_told || grace == MET_BY_REFRESH, "served beyond grace with a well origin: {reply}");
        assert!(!reply.header("cache-status").contains("stale-if-error"), "{reply}");
        is_told
    })
    .await;
    assert!(cluster.neo4j.orders().count(&statement) >= 2, "no run reached the server");
    for _ in 0..5 {
        let reply = cluster.ask(&request).await;
        assert_eq!(code(&reply), error_code, "{reply}");
        assert!((400..500).contains(&reply.status), "{reply}");
    }
    // This error allows stale-if-error, but nothing is left to serve.
    cluster.proxy.refuse();
    until("connections are cut", WAIT_MAX, async || cluster.proxy.open_connections() == 0).await;
    for _ in 0..5 {
        let reply = cluster.ask(&request).await;
        assert_eq!(reply.status, 503, "the old value came back: {reply}");
    }
    assert!(cluster.redis.keys("hopcache:*:e").is_empty(), "it is left in the store");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_error_met_by_a_miss_is_the_answer() {
    an_error_is_the_answer(STATEMENT, MET_BY_MISS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_rights_met_by_a_refresh_are_the_answer() {
    an_error_is_the_answer(RIGHTS, MET_BY_REFRESH).await;
}
