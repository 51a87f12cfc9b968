//! An origin accepts runs and never answers. Refreshes end at their timeout and free their workers, stale values are
//! served meanwhile, and requests for cold keys fail in time (F26).

use std::time::{Duration, Instant};

use super::scripted_cluster::{ScriptedCluster, WAIT_MAX, code, is_stale, lines, total, versioned};
use crate::support::pace::Slowness;
use crate::support::{say, until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hanging_origin_frees_its_workers_and_keeps_nobody_waiting() {
    let refresh = "[refresh]\nworkers = 2\nqueue_size = 20\ntimeout = \"1s\"\nretry_enabled = false";
    let cluster = ScriptedCluster::start(1, lines("1s", 10.0, "10m", refresh), "timeout = \"3s\"").await;
    let hanging: Vec<_> = (0..4).map(|key| versioned(&format!("hanging {key}"))).collect();
    let (well, well_request) = versioned("well");
    for (_, request) in &hanging {
        cluster.warm(request).await;
    }
    cluster.warm(&well_request).await;
    let slowness = Slowness::of(&cluster.clients()).await;
    cluster.until_expired(&well).await;
    cluster.neo4j.orders().hold("hanging");

    for (_, request) in &hanging {
        let reply = cluster.ask(request).await;
        assert!(is_stale(&reply), "{reply}");
    }
    until("refreshes hang", WAIT_MAX, async || cluster.neo4j.orders().came("hanging").len() >= 5).await;
    let hung = Instant::now();
    let busy = total(&cluster.nodes, "hopcache_origin_in_flight", "").await;
    assert!((1.0..=2.0).contains(&busy), "{busy} workers of 2 are busy");
    // Those that wait for a worker have begun as well.
    let begun = total(&cluster.nodes, "xfetch_active_refreshes", "").await;
    assert!((1.0..=4.0).contains(&begun), "{begun} refreshes of 4 are under way");
    // It waits for a worker, and gets one.
    assert!(is_stale(&cluster.ask(&well_request).await));
    let fresh = cluster.until_fresh(&well_request).await;
    assert!(fresh.is_hit(), "{fresh}");
    until("workers are freed", WAIT_MAX, async || {
        total(&cluster.nodes, "xfetch_active_refreshes", "").await == 0.0
    })
    .await;
    let freed = hung.elapsed();
    // Four runs of 1 s at two workers, plus the delays of a busy machine.
    assert!(freed < slowness.bound(Duration::from_secs(8)), "workers were freed after {freed:?}");
    assert!(total(&cluster.nodes, "xfetch_refresh_failed_total", "").await >= 4.0);
    for (_, request) in &hanging {
        let reply = cluster.ask(request).await;
        assert!(is_stale(&reply), "{reply}");
        assert!(reply.took < slowness.bound(Duration::from_secs(1)), "a client waited: {reply}");
    }
    let (_, cold) = versioned("hanging cold");
    let reply = cluster.ask(&cold).await;
    assert_eq!(
        (reply.status, code(&reply).as_str()),
        (504, "Hopcache.ClientError.OriginTimedOut"),
        "{reply}"
    );
    let timeout = Duration::from_millis(2_500)..slowness.bound(Duration::from_secs(8));
    assert!(timeout.contains(&reply.took), "{reply}");
    cluster.neo4j.orders().release();
    for (_, request) in &hanging {
        cluster.until_fresh(request).await;
    }
    say(&format!(
        "hanging origin: 4 refreshes of 1 s at 2 workers given up, all free after {} ms; cold key failed after {} ms",
        freed.as_millis(),
        reply.took.as_millis()
    ));
}
