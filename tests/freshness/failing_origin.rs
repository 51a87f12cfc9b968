//! Must-show 4: an origin fails half of its runs, in turn with transient errors and cut connections. No client gets an
//! error, and stale answers are marked. Once the origin is well, every key is refreshed within two back-offs.
//!
//! `HOPCACHE_TEST_RATE=1000 HOPCACHE_TEST_SECONDS=60` with a release build is the full size (60/s for 4 s otherwise).

use std::time::{Duration, Instant};

use super::scripted_cluster::{ScriptedCluster, age_s, is_stale, is_stale_if_error, lines, versioned};
use crate::support::load::{Load, Sample, percentile_ms};
use crate::support::scripted_orders::Fate;
use crate::support::{say, size, until};

const KEYS: usize = 12;
const TTL: Duration = Duration::from_secs(1);
/// The shortest pause that a key's failed refresh is followed by, jitter included.
const BACK_OFF_MIN: Duration = Duration::from_millis(1_500);

/// The longest time from a failed run of any key to its next one.
fn longest_back_off(cluster: &ScriptedCluster, keys: &[String]) -> Duration {
    let gap = |runs: &[crate::support::scripted_orders::Arrived]| match runs[0].fate {
        Fate::Answer => Duration::ZERO,
        _ => runs[1].at - runs[0].at,
    };
    let of = |key: &String| cluster.neo4j.orders().came(key).windows(2).map(gap).max().unwrap_or_default();
    keys.iter().map(of).max().unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_origin_that_fails_half_of_its_runs_is_nobodys_trouble() {
    // Grace is short: an entry that outlives it is served because the origin fails.
    let cluster = ScriptedCluster::start(3, lines("1s", 0.5, "10m", "[refresh]\nmin_ttl = \"1s\""), "").await;
    let (keys, requests): (Vec<_>, Vec<_>) = (0..KEYS).map(|key| versioned(&format!("half {key}"))).unzip();
    for request in &requests {
        cluster.warm(request).await;
    }
    cluster.neo4j.orders().fail_half(5);
    let load = Load::start(&cluster.clients(), &requests, size("HOPCACHE_TEST_RATE", 60));
    let end = Instant::now() + Duration::from_secs(size("HOPCACHE_TEST_SECONDS", 4));
    until("the trouble has lasted", end - Instant::now() + TTL, async || Instant::now() > end).await;
    let runs: Vec<_> = keys.iter().flat_map(|key| cluster.neo4j.orders().came(key)).collect();
    let failed = runs.iter().filter(|run| run.fate != Fate::Answer).count();
    let back_off = longest_back_off(&cluster, &keys).max(BACK_OFF_MIN);
    cluster.neo4j.orders().heal();
    let healed = Instant::now();
    // Every key has one answered run that began after the healing, or is fresh from just before it.
    let is_renewed = |key: &String| {
        let good = |run: &crate::support::scripted_orders::Arrived| {
            run.fate == Fate::Answer && run.ended.is_some() && run.at + TTL > healed
        };
        cluster.neo4j.orders().came(key).iter().any(good)
    };
    until("every key is refreshed within two back-offs", back_off * 2, async || keys.iter().all(is_renewed))
        .await;
    let recovered = healed.elapsed();
    let samples = load.stop().await;

    let stale = samples.iter().filter(|sample| is_stale(sample.reply())).count();
    let misses = samples.iter().filter(|sample| !sample.reply().is_hit()).count();
    let by_error = samples.iter().filter(|sample| is_stale_if_error(sample.reply())).count();
    say(&format!(
        "origin failed {failed} of {} runs: {} requests, {stale} stale ({by_error} by error), {misses} by a run of their own, P99 {:.1} ms; all refreshed {} ms after healing (longest back-off seen {} ms)",
        runs.len(),
        samples.len(),
        percentile_ms(&samples.iter().collect::<Vec<_>>(), 99.0),
        recovered.as_millis(),
        back_off.as_millis(),
    ));
    assert!(failed >= KEYS / 2, "the fault happened: {failed} of {} runs", runs.len());
    assert!(stale > 0, "nothing was ever stale");
    // Beyond grace a request brings about a run, and waits for it where that one succeeds.
    for Sample { reply, .. } in &samples {
        let reply = reply.as_ref().unwrap();
        assert_eq!(reply.status, 202, "a client saw it: {reply}");
        let is_old = reply.is_hit() && age_s(reply) >= 2 * TTL.as_secs();
        assert!(!is_old || is_stale(reply), "old and not marked: {reply}");
    }
}
