//! Must show 1 and 2 of issue 7: sessions teach through nodes in turn. Nodes predict for another session, and for
//! persons that no session has visited. That session's second query is a hit, which `prefetch_hits_total` counts.

use std::time::Duration;

use serde_json::json;

use super::social_graph::{People, heard_everywhere, in_session, learning_cluster, sum, think, walk};
use crate::support::cluster::{Cluster, Plan};
use crate::support::{http, say, size, until};

const WAIT_MAX: Duration = Duration::from_secs(20);
const TAUGHT: usize = 24;
/// Persons that the teachers do not visit: they visit only the first ones and those persons' first friends.
const FIRST_PUPIL: usize = 30;
/// Number of unvisited persons; `HOPCACHE_TEST_UNVISITED` changes it.
const UNVISITED: usize = 10;

/// Each walk goes through two nodes, as behind a balancer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_walks_teach_is_warmed_for_people_nobody_visited() {
    let unvisited = size("HOPCACHE_TEST_UNVISITED", UNVISITED);
    let people = People::new("Taught", FIRST_PUPIL + unvisited + 8).await;
    let cluster = learning_cluster().await;
    for person in 0..TAUGHT {
        let session = format!("teacher {person}");
        walk(&cluster, &people, (&session, person), [person % 3, (person + 1) % 3]).await;
    }
    until("the walks are learned", WAIT_MAX, async || {
        sum(&cluster, "hopcache_observations_total", "\"learned\"").await >= TAUGHT as f64
    })
    .await;
    heard_everywhere(&cluster).await;
    let (mut hits, mut right) = (0, 0);
    for person in FIRST_PUPIL..FIRST_PUPIL + unvisited {
        let session = format!("pupil {person}");
        let before = sum(&cluster, "prefetch_attempts_total", "").await;
        let friends = in_session(&session, &people.friends(), &json!({ "id": 100 + person }));
        let first = cluster.nodes[person % 3].ask(&friends).await;
        assert!(!first.is_hit(), "no client asked for it before: {first}");
        let friend = first.value();
        let launched = async || sum(&cluster, "prefetch_attempts_total", "").await > before;
        until("something is prefetched", WAIT_MAX, launched).await;
        until("the prefetch has landed", WAIT_MAX, async || {
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
        "issue 7, must show 2: {hits} of {unvisited} second queries of unvisited people were hits; {launched} launched, {used} used"
    ));
    assert_eq!(right, unvisited, "an answer is of the requested person");
    assert!(hits * 10 >= unvisited * 7 && used >= 1.0, "{hits} hits, {used} of {launched} used");
}

/// Requests without `Hopcache-Session` belong to the session of their principal at their address, unless that is turned
/// off; with `prefetch.enabled = false` nothing is observed at all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_name_a_session_is_its_clients_address_if_at_all() {
    let people = People::new("Fallback", 8).await;
    for (lines, observed, sessions, learned) in [
        ("", 2.0, 1.0, 1.0),
        // Nothing follows from a request without a session, so it is not observed.
        ("fallback_sessions = false", 0.0, 0.0, 0.0),
        ("enabled = false", 0.0, 0.0, 0.0),
    ] {
        let plan = Plan { started: 1, seeded: 1, prefetch: Some(lines), ..Plan::default() };
        let cluster = Cluster::of(plan).await;
        let node = &cluster.nodes[0];
        // An empty name is no name.
        let unnamed = in_session("", &people.friends(), &json!({ "id": 100 }));
        let friend = node.ask(&unnamed).await.value();
        think().await;
        node.ask(&http::query(&people.profile(), &json!({ "person": friend }))).await;
        until("they are taken", WAIT_MAX, async || {
            sum(&cluster, "hopcache_observations_total", "\"taken\"").await >= observed
        })
        .await;
        until("the nodes have learned their lessons", WAIT_MAX, async || {
            sum(&cluster, "hopcache_observations_total", "\"learned\"").await >= learned
        })
        .await;
        assert!((sum(&cluster, "hopcache_sessions", "").await - sessions).abs() < 0.5, "{lines}");
        let taken = sum(&cluster, "hopcache_observations_total", "").await;
        assert!(observed > 0.0 || taken < 0.5, "{lines}: {taken}");
    }
}
