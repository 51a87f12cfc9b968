//! Must-show 7: every metric of early refresh changes by its cause, the gauges come back to 0, the identities of
//! INTERFACE section 4 hold at rest, and the metrics of the alert rules exist.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use super::scripted_cluster::{TRANSIENT, WAIT_MAX, is_stale, lines, total, until_expired, until_fresh};
use crate::support::bolt_proxy::Trouble;
use crate::support::cluster::{Cluster, OwnLabel, Plan, at_neo4j};
use crate::support::load::Load;
use crate::support::{http, say, until};

/// How much longer a lease's record stays in Redis than the lease.
const LEASE_LINGER_MS: u64 = 10_000;

fn asks(what: &str) -> (String, Arc<[u8]>) {
    let statement = format!("RETURN 'meters {what}.' AS what");
    let request = http::query(&statement, &json!({}));
    (statement, request)
}

async fn read(cluster: &Cluster, names: &[&str]) -> Vec<f64> {
    let mut values = Vec::new();
    for name in names {
        values.push(total(&cluster.nodes, name, "").await);
    }
    values
}

/// Each of the metrics grows with its cause.
async fn grow(cluster: &Cluster, names: &[&str], done: impl Future<Output = ()>) {
    let before = read(cluster, names).await;
    done.await;
    let mut now = before.clone();
    let what = format!("each of {names:?} grows from {before:?}");
    until(&what, WAIT_MAX, async || {
        now = read(cluster, names).await;
        now.iter().zip(&before).all(|(now, before)| now > before)
    })
    .await;
    let changes: Vec<_> = names.iter().zip(before.iter().zip(&now)).collect();
    say(&format!("moved: {changes:?}"));
}

/// While something is done each of the gauges is above 0 at some time; afterwards all are 0.
async fn rise_and_fall(cluster: &Cluster, gauges: &[&str], done: impl Future<Output = ()>) {
    let watch = async {
        let mut seen = vec![false; gauges.len()];
        until(&format!("each of {gauges:?} is above 0"), WAIT_MAX, async || {
            for (seen, value) in seen.iter_mut().zip(read(cluster, gauges).await) {
                *seen |= value > 0.0;
            }
            seen.iter().all(|seen| *seen)
        })
        .await;
    };
    tokio::join!(watch, done);
    until(&format!("each of {gauges:?} is 0 again"), WAIT_MAX, async || {
        read(cluster, gauges).await.iter().all(|value| *value == 0.0)
    })
    .await;
}

async fn crowd(cluster: &Cluster, requests: &[Arc<[u8]>], each: usize) -> Vec<http::Reply> {
    let clients = cluster.clients();
    let all = requests.iter().flat_map(|request| std::iter::repeat_n(request, each)).enumerate();
    let all = all.map(|(at, request)| (clients[at % clients.len()], request.clone()));
    let replies = http::crowd(all.collect()).await.into_iter().map(|reply| reply.unwrap());
    replies.inspect(|reply| assert_eq!(reply.status, 202, "{reply}")).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_metric_of_refreshes_moves_by_its_cause() {
    let label = OwnLabel::new("Meters");
    let refresh = "[refresh]\nmin_ttl = \"1s\"\nworkers = 1\nqueue_size = 1\nretry_max = 1\nretry_backoff = 1.0\nstampede_followers = 12";
    let entry = lines("2s", 9.0, "10m", refresh);
    // Refreshes are counted; a prefetch of an entry that is about to expire would take the place of one.
    let cluster = Cluster::of(Plan { entry, prefetch: None, ..Plan::default() }).await;
    a_crowd_on_a_cold_key(&cluster).await;
    somebody_elses_lease(&cluster).await;
    many_stale_keys(&cluster).await;
    a_refresh_that_fails(&cluster).await;
    a_hot_key(&cluster).await;
    a_key_with_an_anchor(&cluster, &label).await;
    at_rest(&cluster).await;
    inputs_of_alerts(&cluster).await;
}

async fn a_crowd_on_a_cold_key(cluster: &Cluster) {
    let (statement, request) = asks("crowd");
    cluster.proxy.delay_runs(&statement, Duration::from_millis(700));
    let done = async { drop(crowd(cluster, &[request], 90).await) };
    grow(cluster, &["single_flight_hits_total", "stampede_events_total"], done).await;
}

/// Copies the lease of one key to another: nodes find the other key's lease taken until it lapses.
async fn somebody_elses_lease(cluster: &Cluster) {
    let (held, held_request) = asks("lease held");
    let (taken, taken_request) = asks("lease taken");
    // The server's word on it is had; and it is gone again.
    cluster.nodes[0].ask(&taken_request).await;
    let key = cluster.nodes[0].explain(&taken, &json!({})).await["query_key"].clone();
    cluster.nodes[0].order("/admin/v1/purge", &json!({ "query_key": key })).await;
    cluster.proxy.delay_runs(&held, Duration::from_secs(1));
    let asking = tokio::spawn(http::crowd(vec![(cluster.clients()[0], held_request)]));
    rise_and_fall(cluster, &["xfetch_active_locks"], async {
        assert!(cluster.proxy.wait_until(&held, WAIT_MAX, |runs| !runs.is_empty()).await);
        let lease = cluster.redis.keys("hopcache:*:l").pop().expect("a lease while it runs");
        let record = cluster.redis.get(&lease);
        let life_ms = LEASE_LINGER_MS + 400;
        let (before, after) = (lease.find('{').unwrap(), lease.find('}').unwrap());
        let other = format!("{}{{{}{}", &lease[..before], key.as_str().unwrap(), &lease[after..]);
        let set = cluster.redis.tell(&format!("SET {other} {record} PX {life_ms}"));
        assert_eq!(set, "+OK");
        grow(cluster, &["xfetch_lock_contention_total"], async {
            assert_eq!(cluster.nodes[0].ask(&taken_request).await.status, 202);
        })
        .await;
        asking.await.unwrap();
    })
    .await;
}

/// Twelve keys on three nodes, each with one worker and room for one that waits.
async fn many_stale_keys(cluster: &Cluster) {
    let (statements, requests): (Vec<_>, Vec<_>) = (0..12).map(|key| asks(&format!("stale {key}"))).unzip();
    crowd(cluster, &requests, 1).await;
    until_expired(&cluster.nodes[0], &statements[11]).await;
    cluster.proxy.delay_runs("meters stale", Duration::from_millis(300));
    let counters = [
        "xfetch_stale_served_total",
        "xfetch_refresh_triggered_total",
        "xfetch_refresh_completed_total",
        "hopcache_refresh_dropped_total",
        "hopcache_refresh_late_total",
        "xfetch_refresh_duration_seconds_count",
        "cache_age_at_access_seconds_count",
        "cache_ttl_remaining_seconds_count",
    ];
    let gauges = ["xfetch_active_refreshes", "xfetch_refresh_queue_size"];
    grow(cluster, &counters, async {
        rise_and_fall(cluster, &gauges, async {
            let replies = crowd(cluster, &requests, 1).await;
            assert!(replies.iter().all(is_stale), "{}", replies[0]);
        })
        .await;
    })
    .await;
}

async fn a_refresh_that_fails(cluster: &Cluster) {
    let (statement, request) = asks("fails");
    cluster.nodes[0].ask(&request).await;
    until_expired(&cluster.nodes[0], &statement).await;
    cluster.proxy.trouble(&statement, Trouble::Fail(TRANSIENT, "injected"), 2);
    grow(cluster, &["hopcache_refresh_retried_total", "xfetch_refresh_failed_total"], async {
        assert!(is_stale(&cluster.nodes[0].ask(&request).await));
    })
    .await;
    until_fresh(&cluster.nodes[0], &request).await;
}

async fn a_hot_key(cluster: &Cluster) {
    let (statement, request) = asks("hot");
    let owner = cluster.owner(&statement, &json!({})).await;
    let other = cluster.clients()[(owner + 1) % 3];
    let mut load = None;
    grow(cluster, &["hopcache_near_hits_total"], async {
        load = Some(Load::start(&[other], &[request], 150));
    })
    .await;
    for sample in load.take().unwrap().stop().await {
        assert_eq!(sample.reply().status, 202);
    }
}

/// Its degree is learned in the background, as soon as it is worth it.
async fn a_key_with_an_anchor(cluster: &Cluster, label: &OwnLabel) {
    at_neo4j(&format!("CREATE (n:{} {{k: 1, value: 'x'}})-[:KNOWS]->(:{0} {{k: 2}})", label.0)).await;
    let statement = format!("MATCH (n:{} {{k: $k}}) RETURN n.value AS value", label.0);
    let request = http::query(&statement, &json!({ "k": 1 }));
    let mut load = None;
    grow(cluster, &["hopcache_degree_queries_total"], async {
        load = Some(Load::start(&cluster.clients(), &[request], 30));
    })
    .await;
    for sample in load.take().unwrap().stop().await {
        assert_eq!(sample.reply().value(), "x");
    }
}

async fn at_rest(cluster: &Cluster) {
    let gauges =
        ["xfetch_active_refreshes", "xfetch_refresh_queue_size", "xfetch_active_locks", "hopcache_flights"];
    until("everything is at rest", WAIT_MAX, async || {
        read(cluster, &gauges).await.iter().all(|value| *value == 0.0)
    })
    .await;
    for node in &cluster.nodes {
        let count = async |name: &str| node.metric(name, "").await.unwrap_or(0.0);
        let answered = count("cache_hit_total").await
            + count("cache_miss_total").await
            + count("cache_bypass_total").await;
        let counters = node.counters().await;
        assert_eq!(count("hopcache_requests_total").await, answered, "{counters}");
        let ended =
            count("xfetch_refresh_completed_total").await + count("xfetch_refresh_failed_total").await;
        assert_eq!(count("xfetch_refresh_triggered_total").await, ended, "{counters}");
        assert_eq!(count("xfetch_refresh_duration_seconds_count").await, ended, "{counters}");
    }
}

/// Every name in the alert rules that could be a metric of ours is one that a node shows.
async fn inputs_of_alerts(cluster: &Cluster) {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../cluster/prometheus/alerts.yml");
    let rules = std::fs::read_to_string(path).expect("cluster/prometheus/alerts.yml");
    let shown = String::from_utf8(cluster.nodes[0].admin("/metrics").await.unwrap().body).unwrap();
    let known: BTreeSet<&str> = shown
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split(['{', ' ']).next())
        .collect();
    let is_ours = |word: &&str| {
        let families = ["hopcache_", "xfetch_", "cache_", "single_flight_", "stampede_", "prefetch_"];
        families.iter().any(|family| word.starts_with(family))
    };
    let words = rules.split(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '_'));
    let asked: BTreeSet<&str> = words.filter(is_ours).collect();
    assert!(!asked.is_empty(), "no rule asks for a metric");
    // A histogram is also spoken of by its bare name.
    let is_shown = |name: &str| known.contains(name) || known.contains(format!("{name}_count").as_str());
    let missing: Vec<_> = asked.iter().filter(|name| !is_shown(name)).collect();
    assert!(missing.is_empty(), "alert rules ask for what no node shows: {missing:?}");
    say(&format!("alert rules ask for {asked:?}: all shown"));
}
