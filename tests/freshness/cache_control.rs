//! The request's `Cache-Control` (INTERFACE section 1) while the entry is fresh, stale, and beyond its grace with a
//! failing origin: one table for each state.

use std::time::Duration;

use super::scripted_cluster::{
    ScriptedCluster, TRANSIENT, WAIT_MAX, is_stale, is_stale_if_error, lines, versioned, with_header,
};
use crate::support::scripted_orders::Fate;
use crate::support::until;

/// The expected answer of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expected {
    Hit,
    Stale,
    ByError,
    /// From a run that the request itself brought about.
    Run,
    /// Past the cache.
    Bypass,
    /// `only-if-cached`, and nothing is that may be served.
    NotCached,
    /// The origin's trouble, and no old value.
    Trouble,
}

use Expected::{ByError, Bypass, Hit, NotCached, Run, Stale, Trouble};

async fn row(cluster: &ScriptedCluster, statement: &str, control: &str, expected: Expected) {
    let request = with_header(statement, &format!("cache-control: {control}"));
    let before = cluster.neo4j.orders().count(statement);
    let reply = cluster.ask(&request).await;
    let status = reply.header("cache-status").to_owned();
    let ran = cluster.neo4j.orders().count(statement) - before;
    let found = match reply.status {
        202 if is_stale_if_error(&reply) => ByError,
        202 if is_stale(&reply) => Stale,
        202 if reply.is_hit() => Hit,
        202 if status.contains("fwd=bypass") => Bypass,
        202 if ran > 0 => Run,
        504 if status.contains("not-cached")
            || reply.json()["errors"][0]["code"] == "Hopcache.ClientError.NotCached" =>
        {
            NotCached
        }
        // The origin's words with its status, or ours while the key is held back.
        400 if reply.json()["errors"][0]["code"] == TRANSIENT => Trouble,
        503 => Trouble,
        _ => panic!("\"{control}\": {reply}"),
    };
    assert_eq!(found, expected, "\"{control}\": {ran} runs; {reply}");
    assert!(found != Hit || ran == 0, "\"{control}\": a hit ran");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_fresh_entry() {
    let cluster = ScriptedCluster::start(1, lines("10m", 0.5, "10m", ""), "").await;
    let (statement, request) = versioned("control fresh");
    row(&cluster, &statement, "only-if-cached", NotCached).await;
    cluster.warm(&request).await;
    until("it has an age", WAIT_MAX, async || {
        let explained = cluster.nodes[0].explain(&statement, &serde_json::json!({})).await;
        explained["entry"]["age_ms"].as_u64().is_some_and(|age| age > 1_100)
    })
    .await;
    for (control, expected) in [
        ("max-age=60", Hit),
        ("max-stale", Hit),
        ("max-stale=5", Hit),
        ("only-if-cached", Hit),
        ("only-if-cached, max-age=1", NotCached),
        ("no-store", Bypass),
        ("max-age=60", Hit),
        ("max-age=1", Run),
        ("no-cache", Run),
        ("max-age=60", Hit),
    ] {
        row(&cluster, &statement, control, expected).await;
    }
}

/// The server holds the refresh's run, so that the entry stays stale between the rows; where a row needs a run, runs
/// are let through again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_stale_entry() {
    let cluster =
        ScriptedCluster::start(1, lines("1s", 10.0, "10m", "[refresh]\nretry_enabled = false"), "").await;
    let (statement, request) = versioned("control stale");
    cluster.warm(&request).await;
    cluster.until_expired(&statement).await;
    cluster.neo4j.orders().hold(&statement);
    for (control, expected) in [
        ("max-age=60", Stale),
        ("max-stale", Stale),
        ("max-stale=60", Stale),
        ("only-if-cached", Stale),
        ("only-if-cached, max-stale=60", Stale),
        ("only-if-cached, max-stale=0", NotCached),
        ("only-if-cached, no-cache", NotCached),
        ("max-age=60, max-stale", Stale),
    ] {
        row(&cluster, &statement, control, expected).await;
    }
    cluster.neo4j.orders().release();
    cluster.until_fresh(&request).await;
    for control in ["max-stale=0", "max-age=1", "no-cache"] {
        cluster.until_expired(&statement).await;
        until("no refresh is under way", WAIT_MAX, async || {
            super::scripted_cluster::total(&cluster.nodes, "xfetch_active_refreshes", "").await == 0.0
        })
        .await;
        row(&cluster, &statement, control, Run).await;
    }
    cluster.until_expired(&statement).await;
    row(&cluster, &statement, "no-store", Bypass).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_an_entry_that_outlives_its_grace_by_error() {
    let cluster =
        ScriptedCluster::start(1, lines("1s", 0.5, "10m", "[refresh]\nretry_enabled = false"), "").await;
    let (statement, request) = versioned("control error");
    cluster.warm(&request).await;
    cluster.neo4j.orders().doom(&statement, Fate::Fail(TRANSIENT), usize::MAX);
    until("it is served by error", WAIT_MAX, async || is_stale_if_error(&cluster.ask(&request).await)).await;
    // Beyond grace, and beyond the second that max-age=1 asks for.
    until("grace is over", Duration::from_secs(5), async || {
        let explained = cluster.nodes[0].explain(&statement, &serde_json::json!({})).await;
        explained["entry"]["age_ms"].as_u64().is_some_and(|age| age > 2_100)
    })
    .await;
    for (control, expected) in [
        ("max-age=60", ByError),
        ("max-stale", ByError),
        ("max-stale=60", ByError),
        ("max-stale=0", Trouble),
        ("max-age=1", Trouble),
        ("no-cache", Trouble),
        ("no-store", Trouble),
        ("only-if-cached", NotCached),
        ("max-age=60", ByError),
    ] {
        row(&cluster, &statement, control, expected).await;
    }
}
