//! Threats: a client that guesses thousands of passwords gets no access. Other clients, also at their first log-on,
//! lose neither their hits nor their cluster.
//!
//! (`crates/fronts/src/credentials/check/tests.rs` shows that credentials are checked again beside guesses that Neo4j has
//! not answered.)

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::task::JoinSet;

use super::scripted_cluster::{Lines, ScriptedCluster};
use crate::support::http::{Connection, basic, post};
use crate::support::{distribution, say, until};

const ANN: (&str, &str) = ("ann", "the-password-of-ann");
const GUESSING: usize = 60;

fn request(user: &str, password: &str) -> Arc<[u8]> {
    let body = json!({"statement": "RETURN $k AS k", "parameters": {"k": "one"}}).to_string();
    post("/db/neo4j/query/v2", &basic(user, password), &body)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn guesses_cost_the_believed_nothing() {
    let newcomers: Vec<String> = (0..10).map(|number| format!("new{number}")).collect();
    let mut users = vec![ANN];
    users.extend(newcomers.iter().map(|name| (name.as_str(), "a-password")));
    let lines = Lines { node: "", origin: "", entry: "ttl = \"10m\"" };
    let cluster = ScriptedCluster::start(&users, Duration::ZERO, lines).await;
    let (is_over, guesses) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let mut connection = Connection::open(cluster.nodes[0].addrs.client).await.unwrap();
    assert_eq!(connection.ask(&request(ANN.0, ANN.1)).await.unwrap().status, 202);

    let mut guessing = JoinSet::new();
    for guesser in 0..GUESSING {
        let (is_over, guesses) = (Arc::clone(&is_over), Arc::clone(&guesses));
        let mut connection = Connection::open(cluster.nodes[0].addrs.client).await.unwrap();
        guessing.spawn(async move {
            while !is_over.load(Ordering::Relaxed) {
                let guess = guesses.fetch_add(1, Ordering::Relaxed);
                // Half of them of one user, half of users that do not exist.
                let user = if guesser % 2 == 0 { ANN.0.to_owned() } else { format!("nobody{guess}") };
                let reply = connection.ask(&request(&user, &format!("guess-{guess}"))).await.unwrap();
                // 429: Neo4j checks at most two passwords of one user.
                assert!([401, 429].contains(&reply.status), "{reply}");
                assert_eq!(reply.header("cache-status"), "", "{reply}");
            }
        });
    }
    // More than the places for refused identities.
    let many = async || cluster.neo4j.logons_refused() > 1_500;
    until("1,500 refused log-ons", Duration::from_secs(30), many).await;
    let (mut took, mut newcomers) = (Vec::new(), newcomers.iter());
    let end = Instant::now() + Duration::from_secs(2);
    while Instant::now() < end || newcomers.len() > 0 {
        let reply = connection.ask(&request(ANN.0, ANN.1)).await.unwrap();
        assert!(reply.is_hit(), "{reply}");
        took.push(reply.took);
        if let Some(newcomer) = newcomers.next() {
            let reply = connection.ask(&request(newcomer, "a-password")).await.unwrap();
            assert_eq!(reply.value(), json!(newcomer));
        }
    }
    is_over.store(true, Ordering::Relaxed);
    guessing.join_all().await;
    took.sort_unstable();
    let (sent, refused) = (guesses.load(Ordering::Relaxed), cluster.neo4j.logons_refused());
    say(&format!(
        "{sent} guesses, 0 answered; log-ons refused {refused}; {} hits of logged-on users meanwhile",
        took.len()
    ));
    say(&format!(
        "a hit beside the guesses: {}",
        distribution(&[took[0], took[took.len() / 2], took[took.len() - 1]])
    ));
}
