//! Drivers name no session. What one connection asks without a pause is taken for one: pages of three statements about one person
//! teach which statements belong together, and the first one of a person whom nobody visited brings the other two at once.

use std::time::Duration;

use serde_json::{Value, json};

use super::learned_sequences::{came_within, enough};
use super::social_graph::{People, known_everywhere, sum};
use crate::cluster::written::bolt;
use crate::support::cluster::{Cluster, Plan};
use crate::support::until;

const WAIT_MAX: Duration = Duration::from_secs(20);
const LAUNCH_WAIT: Duration = Duration::from_secs(2);
const TAUGHT: usize = 24;
const UNVISITED: usize = 8;

/// The statements of a page, and the name of each one's only parameter.
fn page(people: &People) -> [(String, &'static str); 3] {
    let friends = people.friends();
    [(people.profile(), "person"), (friends.clone(), "id"), (friends.replace("ORDER BY", "ORDER BY -"), "id")]
}

fn parameter(name: &str, person: usize) -> Value {
    json!({ name: 100 + person })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_that_nobody_visited_is_warmed_by_its_first_statement() {
    let people = People::new("Paged", TAUGHT + UNVISITED).await;
    let cluster =
        Cluster::of(Plan { prefetch: Some("fallback_sessions = false\ndepth = 0"), ..Plan::default() }).await;
    // A pool's connections: each is used for page after page.
    let mut pool = Vec::new();
    for node in &cluster.nodes {
        pool.push(bolt(node.addrs.bolt).await);
    }
    for person in 0..TAUGHT {
        let client = &mut pool[person % 3];
        for (statement, name) in page(&people) {
            client.run("neo4j", &statement, &parameter(name, person)).await.unwrap().unwrap();
        }
    }
    until("most pages are learned", WAIT_MAX, async || {
        sum(&cluster, "hopcache_observations_total", "\"learned\"").await >= (2 * TAUGHT) as f64 * 0.8
    })
    .await;
    known_everywhere(&cluster, (3.0, 2.0)).await;
    let mut hits = 0;
    for person in TAUGHT..TAUGHT + UNVISITED {
        let client = &mut pool[person % 3];
        let before = sum(&cluster, "prefetch_attempts_total", "").await;
        let [(first, name), rest @ ..] = page(&people);
        client.run("neo4j", &first, &parameter(name, person)).await.unwrap().unwrap();
        came_within(LAUNCH_WAIT, async || sum(&cluster, "prefetch_attempts_total", "").await >= before + 2.0)
            .await;
        until("the prefetches have landed", WAIT_MAX, async || {
            sum(&cluster, "hopcache_origin_in_flight", "").await < 0.5
        })
        .await;
        let before = sum(&cluster, "cache_hit_total", "").await;
        for (statement, name) in rest {
            let rows = client.run("neo4j", &statement, &parameter(name, person)).await.unwrap().unwrap();
            assert_eq!(rows.rows.len(), 3, "three friends");
        }
        hits += (sum(&cluster, "cache_hit_total", "").await - before).round() as usize;
    }
    enough(&cluster, (hits, 2 * UNVISITED), "pages over Bolt").await;
}
