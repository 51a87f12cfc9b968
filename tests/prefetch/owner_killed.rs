//! Issue 7, faults (F1): the owner of a candidate's key is killed while it prefetches. The next owner answers requests
//! for the key, and the launch accounts of the survivors balance.

use std::time::{Duration, Instant};

use serde_json::json;

use super::accounting::balanced;
use super::social_graph::{People, in_session, learning_cluster, teach};
use crate::support::bolt_proxy::RunSeen;
use crate::support::pace::Slowness;
use crate::support::{say, until};

const WAIT_MAX: Duration = Duration::from_secs(20);
/// A part of the profile's text, both as clients write it and in its normal form, which a prefetch runs.
const PROFILE: &str = "AS name";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_owner_that_is_killed_while_it_prefetches_keeps_nobody_waiting() {
    let people = People::new("Killed", 64).await;
    let mut cluster = learning_cluster().await;
    teach(&cluster, &people, 24).await;
    cluster.proxy.delay_runs(PROFILE, Duration::from_secs(5));
    let mut victim = None;
    for person in 30..50 {
        // In the ring of people the first friend is the next one.
        let friend = json!({ "person": 100 + person + 1 });
        let owner = cluster.owner(&people.profile(), &friend).await;
        let entry = (owner + 1) % 3;
        let friends =
            in_session(&format!("pupil {person}"), &people.friends(), &json!({ "id": 100 + person }));
        cluster.nodes[entry].ask(&friends).await;
        let is_it = |query: &str| query.contains(&friend.to_string());
        let within = Duration::from_secs(2);
        let has_come = |runs: &[RunSeen]| runs.iter().any(|run| is_it(&run.query));
        if cluster.proxy.wait_until(PROFILE, within, has_come).await {
            victim = Some((owner, entry, friend));
            break;
        }
    }
    let (owner, entry, friend) = victim.expect("one of 20 candidates is launched");
    let pending = cluster.nodes[owner].metric("prefetch_pending", "").await;
    assert!(pending >= Some(1.0), "it runs at the key's owner: {pending:?}");
    let slowness = Slowness::of(&[cluster.nodes[entry].addrs.client]).await;
    cluster.nodes[owner].kill();
    cluster.proxy.heal();
    let asked = Instant::now();
    let profile = in_session("pupil", &people.profile(), &friend);
    let reply = cluster.nodes[entry].ask(&profile).await;
    assert_eq!(reply.value(), format!("p{}", friend["person"].as_i64().unwrap() - 100), "{reply}");
    let took = asked.elapsed();
    // The lease of a prefetch whose node is dead. A demand request waits for it no longer than for any other lease
    // (I7).
    let most = slowness.bound(Duration::from_secs(15));
    assert!(took < most, "{took:?}, {most:?} at most");
    until("the others go on as two", WAIT_MAX, async || {
        let mut all = true;
        for (place, node) in cluster.nodes.iter().enumerate().filter(|(place, _)| *place != owner) {
            all &= node.metric("hopcache_ring_members", "").await == Some(2.0) || place == owner;
        }
        all
    })
    .await;
    let alive = cluster.nodes.iter().enumerate().filter(|(place, _)| *place != owner).map(|(_, node)| node);
    let account = balanced(alive).await;
    say(&format!("issue 7, owner killed while it prefetched: the next answer after {took:?}; {account:?}"));
}
