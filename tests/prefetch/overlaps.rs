//! Overlaps on real nodes with the shipped defaults: an entry of the same anchor node that is about to expire is launched
//! and used. The owner of the answered query's key looks for them among its own keys.
//!
//! An overlap begins with a fixed probability of 0.3, barely over the threshold of an idle origin, 0.25.

use std::time::Duration;

use serde_json::{Value, json};

use super::accounting::balanced;
use super::social_graph::{People, in_session, sum};
use crate::support::cluster::{Cluster, Plan};
use crate::support::http::Reply;
use crate::support::{say, until};

const WAIT_MAX: Duration = Duration::from_secs(20);
/// A node's budget earns one launch for each four demand misses of its keys.
const MISSES_FOR_TWO_LAUNCHES: f64 = 8.0;

async fn of_kind(cluster: &Cluster, kind: &str, outcome: &str) -> f64 {
    let labels = format!("kind=\"{kind}\",outcome=\"{outcome}\"");
    sum(cluster, "hopcache_prefetch_kinds_total", &labels).await
}

/// Misses of keys of every node. Each has its own session, so that nodes learn nothing from them.
async fn earn_launches(cluster: &Cluster) {
    for number in 0..500 {
        let request = in_session(&format!("earner {number}"), "RETURN $k AS earned", &json!({ "k": number }));
        assert_eq!(cluster.nodes[number % cluster.nodes.len()].ask(&request).await.status, 202);
        let mut have_enough = number % 10 == 9;
        for node in cluster.nodes.iter().filter(|_| number % 10 == 9) {
            let misses = node.metric("hopcache_origin_runs_total", "cause=\"miss\"").await.unwrap_or(0.0);
            have_enough &= misses >= MISSES_FOR_TWO_LAUNCHES;
        }
        if have_enough {
            return;
        }
    }
    panic!("500 keys are not enough for {MISSES_FOR_TWO_LAUNCHES} misses of each node");
}

async fn friends_of(cluster: &Cluster, people: &People, session: &str, person: usize) -> Reply {
    let request = in_session(session, &people.friends(), &json!({ "id": 100 + person }));
    cluster.nodes[person % cluster.nodes.len()].ask(&request).await
}

async fn until_landed(cluster: &Cluster) {
    until("the prefetch has landed", WAIT_MAX, async || {
        sum(cluster, "hopcache_origin_in_flight", "").await < 0.5
            && sum(cluster, "hopcache_flights", "").await < 0.5
    })
    .await;
}

/// The remaining life of a person's friends in the cache.
async fn left_ms(cluster: &Cluster, people: &People, person: usize) -> i64 {
    let explained = cluster.nodes[0].explain(&people.friends(), &json!({ "id": 100 + person })).await;
    explained["entry"]["ttl_ms"].as_i64().unwrap_or(-1)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_entry_of_the_same_anchor_that_is_about_to_expire_is_launched_and_used() {
    /// The last tenth of a life in which an overlap is launched, of the shortest TTL that jitter gives.
    const LAST_TENTH_MS: i64 = 900;
    const PERSONS: usize = 12;
    /// A busy origin is launched at by nothing, so a wave of visitors may find none.
    const WAVES: usize = 3;
    let people = People::new("Overlap", WAVES * 64).await;
    let plan = Plan { entry: "ttl = \"10s\"", ..Plan::default() };
    let cluster = Cluster::of(plan).await;
    earn_launches(&cluster).await;
    let session = |person: usize| format!("visitor {person}");
    let is_launched = async || of_kind(&cluster, "overlap", "launched").await >= 1.0;
    let mut asked: Vec<usize> = Vec::new();
    for wave in 0..WAVES {
        let persons = wave * PERSONS..(wave + 1) * PERSONS;
        for person in persons.clone() {
            assert_eq!(friends_of(&cluster, &people, &session(person), 5 * person).await.status, 202);
        }
        cluster.redis.committed().await;
        until("the wave's entries are over, or an overlap is launched", WAIT_MAX, async || {
            let mut is_over = true;
            for person in persons.clone().filter(|person| !asked.contains(person)).collect::<Vec<_>>() {
                let left = left_ms(&cluster, &people, 5 * person).await;
                if (1..LAST_TENTH_MS).contains(&left) {
                    let profile = json!({ "person": 100 + 5 * person });
                    let request = in_session(&session(person), &people.profile(), &profile);
                    assert_eq!(cluster.nodes[0].ask(&request).await.status, 202);
                    asked.push(person);
                }
                is_over &= left <= 0;
            }
            is_over || is_launched().await
        })
        .await;
        if is_launched().await {
            break;
        }
    }
    until("an earlier query of the same person is launched", WAIT_MAX, async || is_launched().await).await;
    until_landed(&cluster).await;
    let twice = |person: &&usize| {
        let id = format!("{}", 100 + 5 * **person);
        cluster.proxy.seen("AS friend").iter().filter(|run| run.query.contains(&id)).count() == 2
    };
    let renewed =
        *asked.iter().find(twice).expect("a person whose friends were read twice, and asked for once");
    let reply = friends_of(&cluster, &people, &session(renewed), 5 * renewed).await;
    assert!(reply.is_hit(), "{reply}");
    until("it counts as used", WAIT_MAX, async || of_kind(&cluster, "overlap", "used").await >= 1.0).await;
    let age: Value = reply.header("age").parse().unwrap_or(Value::Null);
    let account = balanced(&cluster.nodes).await;
    say(&format!(
        "overlaps on real nodes: {} visitors, the renewed entry's age {age} s; {account:?}",
        asked.len()
    ));
}
