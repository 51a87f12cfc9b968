//! Must show 1 and 2 of issue 7: what sessions teach through round-robin nodes is predicted for another session, for
//! people whom nobody has visited, and its second query is a hit that `prefetch_hits_total` counts.

use std::time::Duration;

use serde_json::json;

use super::graph::{People, in_session, learning_cluster, sum, walk};
use crate::support::{say, until};

const PATIENCE: Duration = Duration::from_secs(20);
const TAUGHT: usize = 24;
const UNVISITED: usize = 10;

/// Each walk goes through two nodes, as behind a balancer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_walks_teach_is_warmed_for_people_nobody_visited() {
    let people = People::new("Taught", 64).await;
    let cluster = learning_cluster().await;
    for person in 0..TAUGHT {
        let session = format!("teacher {person}");
        walk(&cluster, &people, (&session, person), [person % 3, (person + 1) % 3]).await;
    }
    until("the walks are learned", PATIENCE, async || {
        sum(&cluster, "hopcache_observations_total", "\"learned\"").await >= TAUGHT as f64
    })
    .await;
    until("each node has heard of it", PATIENCE, async || {
        let mut all = true;
        for node in &cluster.nodes {
            all &= node.metric("hopcache_learned_patterns", "").await.unwrap_or(0.0) >= 2.0;
            all &= node.metric("hopcache_learned_forms", "").await.unwrap_or(0.0) >= 1.0;
        }
        all
    })
    .await;
    let (mut hits, mut right) = (0, 0);
    for person in 30..30 + UNVISITED {
        let session = format!("pupil {person}");
        let before = sum(&cluster, "prefetch_attempts_total", "").await;
        let friends = in_session(&session, &people.friends(), &json!({ "id": 100 + person }));
        let first = cluster.nodes[person % 3].ask(&friends).await;
        assert!(!first.is_hit(), "nobody asked for it before: {first}");
        let friend = first.value();
        let launched = async || sum(&cluster, "prefetch_attempts_total", "").await > before;
        until("something is prefetched", PATIENCE, launched).await;
        until("the prefetch has landed", PATIENCE, async || {
            sum(&cluster, "hopcache_origin_in_flight", "").await < 0.5
        })
        .await;
        let profile = in_session(&session, &people.profile(), &json!({ "person": friend }));
        let second = cluster.nodes[(person + 1) % 3].ask(&profile).await;
        hits += usize::from(second.is_hit());
        right += usize::from(second.value() == format!("p{}", friend.as_i64().unwrap() - 100));
    }
    let used = sum(&cluster, "prefetch_hits_total", "").await;
    let launched = sum(&cluster, "prefetch_attempts_total", "").await;
    say(&format!(
        "issue 7, must show 2: {hits} of {UNVISITED} second queries of people nobody visited were hits; {launched} launched, {used} used"
    ));
    assert_eq!(right, UNVISITED, "an answer is the person's who was asked for");
    assert!(hits * 10 >= UNVISITED * 7 && used >= 1.0, "{hits} hits, {used} of {launched} used");
}
