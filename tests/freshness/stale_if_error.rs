//! An origin is gone for longer than grace (F25, I4): stale-if-error until its own end, marked, with the true age; then
//! 503. No stale-if-error where it is turned off.

use std::time::{Duration, Instant};

use super::scripted_cluster::{
    ScriptedCluster, WAIT_MAX, age_s, is_stale, is_stale_if_error, lines, versioned,
};
use crate::support::{say, until};

/// TTL 1 s, grace half of it, stale-if-error 3 s.
const GRACE_END: Duration = Duration::from_millis(1_500);
const END: Duration = Duration::from_millis(4_500);
/// One second for the rounding of `Age`, and the time of an answer's way.
const INEXACT: Duration = Duration::from_millis(1_500);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_the_origin_is_away_stale_if_error_is_served_until_its_end() {
    let cluster = ScriptedCluster::start(1, lines("1s", 0.5, "3s", ""), "").await;
    let (_, request) = versioned("away");
    let before = Instant::now();
    cluster.warm(&request).await;
    let read = Instant::now();
    cluster.proxy.refuse();
    let (mut stale, mut by_error, mut last_served) = (0, 0, Duration::ZERO);
    until("the last of its life is over", END + WAIT_MAX, async || {
        // The read began between `before` and `read`.
        let sent = read.elapsed();
        let reply = cluster.ask(&request).await;
        if reply.status != 202 {
            assert_eq!(reply.status, 503, "{reply}");
            assert!(reply.header("retry-after").parse::<u32>().is_ok(), "{reply}");
            assert!(before.elapsed() >= END, "given up after {:?}: {reply}", before.elapsed());
            return true;
        }
        let (least, most) = (read.elapsed().saturating_sub(INEXACT), before.elapsed());
        let age = Duration::from_secs(age_s(&reply));
        assert!(least <= age + reply.took && age <= most, "age {age:?}, not {least:?} to {most:?}: {reply}");
        // Between the soft TTL and the end of grace both marks are valid: the refresh may have failed or not yet.
        let is_marked = is_stale_if_error(&reply);
        assert!(sent < GRACE_END || is_marked, "beyond grace and not marked: {reply}");
        (stale, by_error) = (stale + u32::from(is_stale(&reply)), by_error + u32::from(is_marked));
        last_served = sent;
        false
    })
    .await;
    assert!(by_error > 0, "nothing was served by error");
    // A refusal in the first moment of 4.5 s, and a look every 10 ms or so.
    assert!(last_served > END - Duration::from_secs(1), "last served after {last_served:?}");
    assert!(last_served < END + Duration::from_millis(500), "served beyond its end: {last_served:?}");
    assert!(!cluster.ask(&request).await.is_hit(), "and it is not served again");
    cluster.proxy.bring_back().await.unwrap();
    until("the origin is found again", WAIT_MAX, async || cluster.ask(&request).await.status == 202).await;
    say(&format!(
        "origin away: {stale} stale answers, {by_error} by error, the last {} ms after the read (end {} ms)",
        last_served.as_millis(),
        END.as_millis()
    ));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_stale_if_error_is_off_grace_is_the_end() {
    // Credentials are believed for 30 s: it is the entry that ends.
    let cluster = ScriptedCluster::start(1, lines("1s", 0.5, "0s", ""), "").await;
    let (_, request) = versioned("off");
    let before = Instant::now();
    cluster.warm(&request).await;
    let read = Instant::now();
    cluster.proxy.refuse();
    let mut stale = 0;
    until("it is over", WAIT_MAX, async || {
        let sent = read.elapsed();
        let reply = cluster.ask(&request).await;
        assert!(reply.status != 202 || sent < GRACE_END, "served beyond grace: {reply}");
        stale += u32::from(reply.status == 202 && is_stale(&reply));
        assert!(reply.status == 202 || reply.status == 503, "{reply}");
        assert!(reply.status == 202 || before.elapsed() >= GRACE_END, "{reply}");
        reply.status == 503
    })
    .await;
    let over = before.elapsed();
    assert!(stale > 0, "stale while its grace lasts");
    assert!(over < GRACE_END + Duration::from_secs(2), "served for {over:?}");
    let refused = cluster.ask(&request).await;
    assert_eq!(refused.status, 503, "{refused}");
}
