//! Must-show 2 of early refresh, at small scale: one key under steady load over several TTLs, three nodes, real Redis
//! and Neo4j. I1: one run in each window; no request waits for one.
//!
//! `HOPCACHE_TEST_RATE=1000 HOPCACHE_TEST_TTLS=10 HOPCACHE_TEST_TTL_S=10` with a release build in
//! `HOPCACHE_TEST_BINARY` is the full size (60 requests a second over 4 TTLs of 2 s otherwise).

use std::time::Duration;

use serde_json::json;

use super::scripted_cluster::{WAIT_MAX, is_stale, lines, total};
use crate::support::cluster::{Cluster, Plan};
use crate::support::load::{Load, Sample, percentile_ms};
use crate::support::{http, say, size, until};

const STATEMENT: &str = "RETURN 'freshness windows' AS what";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_run_in_each_window_and_nobody_waits_for_it() {
    let windows = size("HOPCACHE_TEST_TTLS", 4_usize);
    let ttl = Duration::from_secs(size("HOPCACHE_TEST_TTL_S", 2));
    let entry = lines(&format!("{}s", ttl.as_secs()), 0.5, "10m", "[refresh]\nmin_ttl = \"1s\"");
    // Refreshes are counted; a prefetch of an entry that is about to expire would take the place of one.
    let cluster = Cluster::of(Plan { entry, prefetch: None, ..Plan::default() }).await;
    cluster.proxy.delay_runs(STATEMENT, Duration::from_millis(30));
    let request = http::query(STATEMENT, &json!({}));
    let first = cluster.nodes[0].ask(&request).await;
    assert!(first.header("cache-status").contains("; stored"), "{first}");

    let load = Load::start(&cluster.clients(), &[request], size("HOPCACHE_TEST_RATE", 60));
    let within = ttl * 2 * windows as u32 + WAIT_MAX;
    let came = cluster.proxy.wait_until(STATEMENT, within, |runs| runs.len() > windows).await;
    let samples = load.stop().await;
    assert!(came, "{} runs in {within:?}", cluster.proxy.runs(STATEMENT));
    until("every refresh has ended", WAIT_MAX, async || {
        total(&cluster.nodes, "xfetch_active_refreshes", "").await == 0.0
    })
    .await;

    let runs = cluster.proxy.seen(STATEMENT);
    let gaps: Vec<Duration> = runs.windows(2).map(|two| two[1].arrived - two[0].arrived).collect();
    let stale = samples.iter().filter(|sample| is_stale(sample.reply())).count();
    let late = total(&cluster.nodes, "hopcache_refresh_late_total", "").await;
    let near = |sample: &&Sample| {
        let by = |run: &crate::support::bolt_proxy::RunSeen| {
            let (a, b) = (run.arrived, sample.due);
            a.max(b) - a.min(b) < ttl / 4
        };
        runs.iter().any(by)
    };
    let (around, calm): (Vec<&Sample>, Vec<&Sample>) = samples.iter().partition(near);
    say(&format!(
        "one key, {} requests: {} runs, {:?} apart; {stale} stale answers, {late} late refreshes; P99 {:.1} ms within a quarter TTL of a run, {:.1} ms otherwise",
        samples.len(),
        runs.len(),
        gaps,
        percentile_ms(&around, 99.0),
        percentile_ms(&calm, 99.0),
    ));
    for sample in &samples {
        let reply = sample.reply();
        assert!(reply.status == 202 && reply.is_hit(), "waited for a run, or failed: {reply}");
    }
    // Two nodes that refresh for the same window run within one run's time of each other. A lead of three quarters of a
    // TTL has a probability below 10^-3 (THEORY "Early refresh").
    assert!(gaps.iter().all(|gap| *gap > ttl / 4), "two runs in one window: {gaps:?}");
    assert!(gaps.iter().all(|gap| *gap < ttl * 3 / 2), "a window without a run: {gaps:?}");
    assert_eq!(total(&cluster.nodes, "hopcache_origin_runs_total", "cause=\"miss\"").await, 1.0);
    let refreshes = total(&cluster.nodes, "hopcache_origin_runs_total", "cause=\"refresh\"").await;
    assert_eq!(refreshes as usize, runs.len() - 1);
    assert_eq!(total(&cluster.nodes, "xfetch_refresh_completed_total", "").await, refreshes);
    assert_eq!(total(&cluster.nodes, "xfetch_refresh_failed_total", "").await, 0.0);
    // Early refresh is late in less than half of the windows here, with ε = 10^-3 (a busy machine alone can make it
    // late).
    assert!(late * 2.0 < windows as f64, "{late} of {windows} refreshes were late");
}
