//! F15, F17: the store restarts empty, and hangs.

use std::time::{Duration, Instant};

use crate::containers::redis;
use crate::containers::world::{World, query, run};
use crate::support::{http, say, until};

/// F15, I3: a result in flight is not stored under a lease that the new store does not know. Every other key costs at
/// most one more run.
#[test]
fn a_store_that_restarts_empty_refuses_late_commits() {
    run(async {
        let mut world = World::start("store-empty").await;
        let (warm, flying) = ("RETURN 'before' AS what", "RETURN 'in flight' AS what");
        world.nodes[0].ask(&query(warm)).await;
        world.committed().await;
        assert!(!redis::keys(world.redis_addr(), "hopcache:*:e").await.is_empty());
        let all = [0, 1, 2];
        let fenced_before = world.metric(&all, "hopcache_commits_total", "outcome=\"fenced\"").await;
        let skipped_before = world.metric(&all, "hopcache_commits_total", "outcome=\"skipped\"").await;
        world.proxy.delay_runs(flying, Duration::from_secs(3));
        let (owner, _) = world.owner(flying).await;
        let asking = tokio::spawn(http::crowd(vec![(world.nodes[owner].client(), query(flying))]));
        assert!(world.proxy.wait_until(flying, Duration::from_secs(10), |runs| !runs.is_empty()).await);

        world.redis.signal("SIGKILL").await;
        assert_eq!(world.redis.exit_code().await, Some(137));
        world.redis.start_again().await;
        world.redis_is_back().await;
        assert!(redis::keys(world.redis_addr(), "hopcache:*:e").await.is_empty(), "it did not restart empty");
        let reply = asking.await.unwrap().remove(0).unwrap();
        assert_eq!(reply.value(), "in flight", "{reply}");
        // Without one that came and was refused, an empty store shows nothing.
        let (mut fenced, mut skipped) = (0.0, 0.0);
        until("the late commit is not stored", Duration::from_secs(10), async || {
            fenced = world.metric(&all, "hopcache_commits_total", "outcome=\"fenced\"").await - fenced_before;
            skipped =
                world.metric(&all, "hopcache_commits_total", "outcome=\"skipped\"").await - skipped_before;
            fenced + skipped >= 1.0
        })
        .await;
        let stored = redis::keys(world.redis_addr(), "hopcache:*:e").await;
        assert!(stored.is_empty(), "stored under a lease of the store before: {stored:?}");

        world.wait_until_whole().await;
        for node in &world.nodes {
            assert_eq!(node.ask(&query(warm)).await.value(), "before");
            assert_eq!(node.ask(&query(flying)).await.value(), "in flight");
        }
        let runs = (world.proxy.runs(warm), world.proxy.runs(flying));
        say(&format!(
            "F15, containers: Redis restarted empty in mid-run; late commits fenced {fenced}, skipped {skipped}; runs in all {runs:?}"
        ));
        assert!(runs.0 <= 2 && runs.1 <= 2, "more than one run more: {runs:?}");
    });
}

/// F17: a store that hangs for two seconds costs its deadlines, not the requests.
#[test]
fn a_store_that_hangs_hangs_nobody() {
    run(async {
        let world = World::start("store-hangs").await;
        let flying = "RETURN 'flies on' AS what";
        let most = world.slowness().await.bound(Duration::from_secs(3));
        world.proxy.delay_runs(flying, Duration::from_secs(1));
        let crowd = (0..30).map(|client| (world.nodes[client % 3].client(), query(flying))).collect();
        let asking = tokio::spawn(http::crowd(crowd));
        assert!(world.proxy.wait_until(flying, Duration::from_secs(10), |runs| !runs.is_empty()).await);
        let all = [0, 1, 2];
        let (name, to_open) = ("hopcache_breaker_transitions_total", "to=\"open\"");
        let opened_before = world.metric(&all, name, to_open).await;
        world.redis.pause().await;
        let paused = Instant::now();
        assert!(redis::tell(world.redis_addr(), "PING").await.is_err(), "it answers");
        let (mut asked, mut slowest) = (0, Duration::ZERO);
        while paused.elapsed() < Duration::from_secs(2) {
            let statement = format!("RETURN {asked} AS k, 'hangs' AS what");
            let reply = world.nodes[asked % 3].ask(&query(&statement)).await;
            assert_eq!(reply.value(), asked, "{reply}");
            slowest = slowest.max(reply.took);
            asked += 1;
        }
        for reply in asking.await.unwrap() {
            assert_eq!(reply.unwrap().value(), "flies on");
        }
        assert_eq!(world.proxy.runs(flying), 1, "the flight did not go on");
        let opened = world.metric(&all, name, to_open).await - opened_before;
        world.redis.unpause().await;
        say(&format!(
            "F17, containers: Redis paused for {} ms: {asked} requests, slowest {} ms, breakers opened {opened}, 30 clients of one flight by 1 run",
            paused.elapsed().as_millis(),
            slowest.as_millis()
        ));
        assert!(opened >= 1.0, "no breaker opened");
        assert!(slowest < most, "{slowest:?}, {most:?} at most");
        until("every node finds its store again", Duration::from_secs(15), async || {
            let mut degraded = false;
            for node in &world.nodes {
                degraded |= node.is_degraded("store").await;
            }
            !degraded
        })
        .await;
    });
}
