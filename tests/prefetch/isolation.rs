//! Must show 8 of issue 7 (I5): two users of the real Neo4j with their own credentials send the same texts with the
//! same session names through the same nodes. Nothing that one user teaches becomes known for the other: no run for it,
//! no successor of it. Every connection to Neo4j has runs of one user only.
//!
//! `HOPCACHE_TEST_REQUESTS`: how many requests both make together (480; the issue's own size is 100,000).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::accounting::balanced;
use super::social_graph::{learning_cluster, successors, sum, think};
use crate::support::cluster::{Cluster, OwnLabel, at_neo4j, neo4j_http};
use crate::support::http::{self, Reply, basic};
use crate::support::{say, size, until};

const WAIT_MAX: Duration = Duration::from_secs(20);
const PEOPLE: usize = 400;
const TAUGHT: usize = 24;
/// Two requests that seem to be concurrent, on a busy machine, teach nothing of each other.
const ENOUGH: f64 = TAUGHT as f64 * 0.6;
const WALKERS: usize = 8;

/// A user of Neo4j that this run has made, and the people that only this user asks about.
pub struct User {
    pub name: String,
    side: &'static str,
}

const PASSWORD: &str = "a-users-own-password";

pub fn at_system(statement: &str) -> Arc<[u8]> {
    let body = json!({ "statement": statement }).to_string();
    http::post("/db/system/query/v2", &http::login(), &body)
}

impl User {
    pub async fn new(label: &str, side: &'static str) -> Self {
        let name = format!("{side}{label}").to_lowercase();
        let made = format!("CREATE USER {name} SET PASSWORD '{PASSWORD}' CHANGE NOT REQUIRED");
        let reply = http::ask(neo4j_http(), &at_system(&made)).await.unwrap();
        assert_eq!(reply.status, 202, "{reply}");
        at_neo4j(&format!(
            "UNWIND range(0, {PEOPLE} - 1) AS n CREATE (:{label} {{id: '{side}-' + n, n: n, side: '{side}'}})"
        ))
        .await;
        at_neo4j(&format!(
            "MATCH (p:{label} {{side: '{side}'}}), (f:{label} {{side: '{side}'}}) WHERE (f.n - p.n + {PEOPLE}) % {PEOPLE} IN [1, 2] CREATE (p)-[:KNOWS]->(f)"
        ))
        .await;
        Self { name, side }
    }

    pub fn request(&self, session: &str, statement: &str, parameters: &Value) -> Arc<[u8]> {
        let body = json!({"statement": statement, "parameters": parameters}).to_string();
        let headers = format!("{}hopcache-session: {session}\r\n", basic(&self.name, PASSWORD));
        http::post("/db/neo4j/query/v2", &headers, &body)
    }
}

impl Drop for User {
    fn drop(&mut self) {
        let Ok(mut stream) = std::net::TcpStream::connect(neo4j_http()) else { return };
        let _ = stream.set_read_timeout(Some(Duration::from_secs(10)));
        let dropped = format!("DROP USER {} IF EXISTS", self.name);
        let _ = std::io::Write::write_all(&mut stream, &at_system(&dropped));
        let _ = std::io::Read::read(&mut stream, &mut [0; 1024]);
    }
}

/// The texts. Both users ask the first; the next one is each user's own habit.
struct Texts {
    friends: String,
    habits: [String; 2],
}

impl Texts {
    fn new(label: &str) -> Self {
        Self {
            friends: format!(
                "MATCH (p:{label} {{id: $id}})-[:KNOWS]->(f:{label}) RETURN f.id AS friend ORDER BY f.n"
            ),
            habits: [
                format!("MATCH (p:{label} {{id: $person}}) RETURN p.n AS anns_habit"),
                format!("MATCH (p:{label} {{id: $whose}})-[:KNOWS]->(f) RETURN count(f) AS bobs_habit"),
            ],
        }
    }
}

struct Scene {
    users: [User; 2],
    texts: Texts,
    cluster: Cluster,
    label: OwnLabel,
}

impl Scene {
    async fn start() -> Self {
        let label = OwnLabel::new("Isolation");
        let users = [User::new(&label.0, "ann").await, User::new(&label.0, "bob").await];
        Self { users, texts: Texts::new(&label.0), cluster: learning_cluster().await, label }
    }

    /// The first question of a walk: a person's first friend.
    async fn look(&self, user: usize, number: usize) -> String {
        let who = &self.users[user];
        let id = format!("{}-{}", who.side, number % PEOPLE);
        let request = who.request(&format!("session {number}"), &self.texts.friends, &json!({ "id": id }));
        let friend = self.cluster.nodes[number % 3].ask(&request).await.value();
        let friend = friend.as_str().unwrap().to_owned();
        assert!(friend.starts_with(who.side), "{friend}");
        friend
    }

    /// Both questions of a user's habit.
    async fn walk(&self, user: usize, number: usize) -> Reply {
        let friend = self.look(user, number).await;
        think().await;
        let name = ["person", "whose"][user];
        let parameters = json!({ name: friend });
        let request =
            self.users[user].request(&format!("session {number}"), &self.texts.habits[user], &parameters);
        let reply = self.cluster.nodes[(number + 1) % 3].ask(&request).await;
        assert_eq!(reply.status, 202, "{reply}");
        reply
    }

    async fn teach(&self, user: usize) {
        let before = sum(&self.cluster, "hopcache_observations_total", "\"learned\"").await;
        futures_util::future::join_all((0..TAUGHT).map(|number| self.walk(user, number))).await;
        until("the walks are learned", WAIT_MAX, async || {
            sum(&self.cluster, "hopcache_observations_total", "\"learned\"").await >= before + ENOUGH
        })
        .await;
    }

    /// Runs of a user's habit for the people of the other one.
    fn crossed(&self) -> Vec<String> {
        let mut crossed = Vec::new();
        // The proxy knows them by their columns, because a prefetch runs a text's normal form.
        for (habit, other) in [("anns_habit", "bob-"), ("bobs_habit", "ann-")] {
            let runs = self.cluster.proxy.seen(habit);
            crossed.extend(runs.into_iter().map(|run| run.query).filter(|query| query.contains(other)));
        }
        crossed
    }
}

/// Rounds of walks, until a prefetch was used.
const ROUNDS_MAX: usize = 3;

/// Walks of both users, from this number on; how many of their second requests were hits.
async fn walk_round(scene: &Arc<Scene>, requests: usize, first: usize) -> usize {
    let mut walkers = JoinSet::new();
    for walker in 0..WALKERS {
        let scene = Arc::clone(scene);
        walkers.spawn(async move {
            let mut hits = 0;
            for number in (walker..requests / 2).step_by(WALKERS) {
                hits += usize::from(scene.walk(number % 2, number + first).await.is_hit());
            }
            hits
        });
    }
    walkers.join_all().await.into_iter().sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_that_one_user_teaches_is_warmed_for_another() {
    let requests = size("HOPCACHE_TEST_REQUESTS", 480);
    let scene = Arc::new(Scene::start().await);
    scene.teach(0).await;
    // The other one begins as ann does, in sessions of the same names: ann's habit is not bob's.
    for number in 0..TAUGHT {
        scene.look(1, number).await;
    }
    scene.teach(1).await;
    for number in TAUGHT..2 * TAUGHT {
        scene.look(0, number).await;
    }
    assert_eq!(scene.crossed(), [""; 0], "one user's habit was run for another");
    let (mut hits, mut account) = (0, balanced(&scene.cluster.nodes).await);
    // On a busy machine a whole round may outrun its prefetches.
    for round in 0..ROUNDS_MAX {
        if round > 0 && account.used + account.late >= 1.0 {
            break;
        }
        hits += walk_round(&scene, requests, 3 * TAUGHT + round * requests).await;
        assert_eq!(scene.crossed(), [""; 0], "one user's habit was run for another");
        account = balanced(&scene.cluster.nodes).await;
    }
    assert!(account.used + account.late >= 1.0, "there was prefetching to go astray: {account:?}");
    let connections = runs_by_connection(&scene);
    assert!(connections.len() >= 2 && connections.values().all(|sides| sides.len() == 1), "{connections:?}");
    assert_successors_apart(&scene).await;
    say(&format!(
        "issue 7, must show 8: {requests} requests of two users, {hits} of {} second ones hits, {} connections of one user each, 0 runs of one's habit for the other; {account:?}",
        requests / 2,
        connections.len()
    ));
}

/// The persons in the queries of each connection to Neo4j.
fn runs_by_connection(scene: &Scene) -> BTreeMap<usize, BTreeSet<&'static str>> {
    let mut sides: BTreeMap<usize, BTreeSet<&'static str>> = BTreeMap::new();
    for run in scene.cluster.proxy.seen(&scene.label.0) {
        for side in ["ann", "bob"] {
            if run.query.contains(&format!("\"{side}-")) {
                sides.entry(run.connection).or_default().insert(side);
            }
        }
    }
    sides
}

/// On every node the shared text has two patterns of two realms, each followed by its own user's habit.
async fn assert_successors_apart(scene: &Scene) {
    for node in &scene.cluster.nodes {
        let answer = successors(node, "friend").await;
        let sources = answer["patterns"].as_array().unwrap();
        let mut habits: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
        for source in
            sources.iter().filter(|source| source["text"].as_str().unwrap_or("").contains("AS friend"))
        {
            let realm = source["realm"].as_str().unwrap_or("").to_owned();
            for next in source["successors"].as_array().unwrap() {
                let statement = next["statement"].as_str().unwrap_or("");
                let known =
                    ["anns_habit", "bobs_habit"].into_iter().filter(|habit| statement.contains(habit));
                habits.entry(realm.clone()).or_default().extend(known);
            }
        }
        let learned: Vec<&BTreeSet<&str>> = habits.values().filter(|habits| !habits.is_empty()).collect();
        assert!(
            learned.len() == 2 && learned.iter().all(|habits| habits.len() == 1),
            "{}: {habits:?}",
            node.name
        );
        assert_ne!(learned[0], learned[1], "{}: {habits:?}", node.name);
    }
}
