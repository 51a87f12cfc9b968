//! I5: nodes tell each other of a refusal, and none of them keeps another's alive. So a password that becomes right is
//! accepted soon, also while its clients never stop trying.
//!
//! The defect that this is for: a node that remembered a refusal told it again with each attempt, and each told the other.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde_json::json;

use super::scripted_cluster::{Lines, ScriptedCluster};
use crate::support::bolt_client::BoltClient;
use crate::support::http::{self, basic, post};
use crate::support::say;

const USER: &str = "ada";
const NEW: &str = "becomes-right";
/// Far shorter than a refusal is remembered (`CREDENTIALS_REFUSED_MS`).
const BETWEEN: Duration = Duration::from_millis(150);
/// Attempts while the password is wrong: two times the memory of a refusal.
const WRONG: u32 = 27;
/// Two memories of a refusal, Neo4j's turn for this user, and a slow machine.
const ACCEPTED_WITHIN: Duration = Duration::from_secs(12);

async fn over_bolt(addr: SocketAddr) -> bool {
    let mut client = BoltClient::connect(addr).await.unwrap();
    client.log_on(USER, NEW).await.unwrap().is_ok()
}

async fn over_http(addr: SocketAddr) -> bool {
    let body = json!({"statement": "RETURN 1"}).to_string();
    let request = post("/db/neo4j/query/v2", &basic(USER, NEW), &body);
    http::ask(addr, &request).await.unwrap().status == 202
}

/// Tries on one node after the other, without an end, until both have accepted.
async fn accepted_after(cluster: &ScriptedCluster, try_at: impl AsyncFn(usize) -> bool) -> Duration {
    for attempt in 0..WRONG {
        assert!(!try_at(attempt as usize % 2).await, "the password is wrong");
        // tidy: the pace of the load
        tokio::time::sleep(BETWEEN).await;
    }
    cluster.neo4j.change_password(USER, NEW);
    let (right, mut accepts, mut attempt) = (Instant::now(), [false; 2], 0);
    while accepts != [true; 2] {
        assert!(right.elapsed() < ACCEPTED_WITHIN, "{attempt} right log-ons were refused: {accepts:?}");
        let node = attempt % 2;
        accepts[node] |= try_at(node).await;
        attempt += 1;
        // tidy: the pace of the load
        tokio::time::sleep(BETWEEN).await;
    }
    right.elapsed()
}

async fn cluster() -> ScriptedCluster {
    let lines = Lines { node: "", origin: "", entry: "" };
    ScriptedCluster::start(&[(USER, "the-old-password")], Duration::ZERO, lines).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_password_that_becomes_right_is_accepted_over_bolt_while_clients_try() {
    let cluster = cluster().await;
    let after = accepted_after(&cluster, async |node| over_bolt(cluster.nodes[node].addrs.bolt).await).await;
    say(&format!(
        "I5: over Bolt both nodes accepted the password {} ms after it became right",
        after.as_millis()
    ));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_password_that_becomes_right_is_accepted_over_http_while_clients_try() {
    let cluster = cluster().await;
    let after =
        accepted_after(&cluster, async |node| over_http(cluster.nodes[node].addrs.client).await).await;
    say(&format!(
        "I5: over HTTP both nodes accepted the password {} ms after it became right",
        after.as_millis()
    ));
}
