//! A small graph of persons of one test, and clients that walk through it: a person's friends, then the first of them,
//! as a user clicks.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::cluster::{Cluster, OwnLabel, Plan, at_neo4j};
use crate::support::http::{self, Reply};
use crate::support::process::NodeProcess;
use crate::support::until;

/// People in a ring, each the friend of the next three.
pub struct People {
    label: OwnLabel,
    #[expect(dead_code, reason = "shown when a test fails")]
    pub count: usize,
}

impl People {
    pub async fn new(test: &str, count: usize) -> Self {
        let label = OwnLabel::new(test);
        let name = &label.0;
        at_neo4j(&format!(
            "UNWIND range(0, {count} - 1) AS id CREATE (:{name} {{id: 100 + id, name: 'p' + id}})"
        ))
        .await;
        at_neo4j(&format!(
            "MATCH (p:{name}), (f:{name}) WHERE (f.id - p.id + {count}) % {count} IN [1, 2, 3] CREATE (p)-[:KNOWS]->(f)"
        ))
        .await;
        Self { label, count }
    }

    /// A person's friends, the first one first.
    pub fn friends(&self) -> String {
        let name = &self.label.0;
        format!("MATCH (p:{name} {{id: $id}})-[:KNOWS]->(f:{name}) RETURN f.id AS friend ORDER BY friend")
    }

    /// A person.
    pub fn profile(&self) -> String {
        format!("MATCH (p:{} {{id: $person}}) RETURN p.name AS name", self.label.0)
    }
}

/// Lines of `[prefetch]`: without typed neighbours. Friends of whom somebody asks for friends are neighbours, and a person whom nobody
/// visited would be read ahead before the test asks.
pub const BY_LESSONS_ALONE: &str = "depth = 0";

/// Three nodes that learn and prefetch.
pub async fn learning_cluster() -> Cluster {
    Cluster::of(Plan { prefetch: Some(BY_LESSONS_ALONE), ..Plan::default() }).await
}

/// A request of a session by the tests' user.
pub fn in_session(session: &str, statement: &str, parameters: &Value) -> Arc<[u8]> {
    let body = json!({"statement": statement, "parameters": parameters}).to_string();
    let headers = format!("{}hopcache-session: {session}\r\n", http::login());
    http::post("/db/neo4j/query/v2", &headers, &body)
}

/// One walk: the friends of a person through one node, the first friend's profile through another.
pub async fn walk(
    cluster: &Cluster,
    people: &People,
    (session, person): (&str, usize),
    nodes: [usize; 2],
) -> [Reply; 2] {
    let friends = in_session(session, &people.friends(), &json!({ "id": 100 + person }));
    let first = cluster.nodes[nodes[0]].ask(&friends).await;
    let friend = first.value();
    think().await;
    let profile = in_session(session, &people.profile(), &json!({ "person": friend }));
    [first, cluster.nodes[nodes[1]].ask(&profile).await]
}

/// Sends this many walks, each in its own session through two nodes, until every node knows their lessons.
///
/// Two requests that seem to be concurrent teach nothing of each other. On a busy machine that is most of them, so the
/// same people walk again, each in a new session.
pub async fn teach(cluster: &Cluster, people: &People, walks: usize) {
    let count = cluster.nodes.len();
    let learned = async || {
        until("most walks are learned", WAIT_MAX, async || {
            sum(cluster, "hopcache_observations_total", "\"learned\"").await >= walks as f64 * 0.6
        })
        .await;
    };
    for round in 1..=TEACHING_ROUNDS_MAX {
        let sessions: Vec<String> = (0..walks).map(|person| format!("teacher {person} of {round}")).collect();
        let all = sessions.iter().enumerate().map(|(person, session)| {
            walk(cluster, people, (session, person), [person % count, (person + 1) % count])
        });
        futures_util::future::join_all(all).await;
        if round == TEACHING_ROUNDS_MAX {
            learned().await;
        } else if tokio::time::timeout(TEACHING_ROUND_WAIT_MAX, learned()).await.is_ok() {
            break;
        }
    }
    heard_everywhere(cluster).await;
}

/// Waits until every node knows both patterns of a walk and can run the next query.
pub async fn heard_everywhere(cluster: &Cluster) {
    known_everywhere(cluster, (2.0, 1.0)).await;
}

/// Waits until every node knows so many patterns, and forms that follow them.
pub async fn known_everywhere(cluster: &Cluster, (patterns, forms): (f64, f64)) {
    until("each node has heard of it", WAIT_MAX, async || {
        let mut all = true;
        for node in &cluster.nodes {
            all &= node.metric("hopcache_learned_patterns", "").await.unwrap_or(0.0) >= patterns;
            all &= node.metric("hopcache_learned_forms", "").await.unwrap_or(0.0) >= forms;
        }
        all
    })
    .await;
}

/// How often [`teach`] sends its walks.
const TEACHING_ROUNDS_MAX: usize = 4;

/// What nodes tell of one round has arrived after a second on an idle machine.
const TEACHING_ROUND_WAIT_MAX: Duration = Duration::from_secs(5);

/// For events that take a second or two on an idle machine.
const WAIT_MAX: Duration = Duration::from_secs(20);

/// A cluster of one that learns and prefetches.
pub async fn learning_node() -> Cluster {
    Cluster::of(Plan { started: 1, seeded: 1, ..Plan::default() }).await
}

/// The lessons of a node, as its admin listener shows them.
pub async fn successors(node: &NodeProcess, sought: &str) -> Value {
    let reply = node.admin(&format!("/admin/v1/successors?limit=500&pattern={sought}")).await.unwrap();
    assert_eq!(reply.status, 200, "{reply}");
    reply.json()
}

/// A person looks at an answer before the next click. This pause synchronises nothing: nodes know ages within
/// milliseconds, so the order of two requests closer than that is unknown.
pub async fn think() {
    // tidy: poll interval
    tokio::time::sleep(Duration::from_millis(40)).await;
}

/// A metric's sum over all nodes.
pub async fn sum(cluster: &Cluster, name: &str, labels: &str) -> f64 {
    let mut sum = 0.0;
    for node in &cluster.nodes {
        sum += node.metric(name, labels).await.unwrap_or(0.0);
    }
    sum
}
