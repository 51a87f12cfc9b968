//! I5: nodes tell each other of a refusal, and none of them keeps another's alive. So a password that becomes right is
//! accepted soon, also while its clients never stop trying.
//!
//! The defect that this is for: a node that remembered a refusal told it again with each attempt, and each told the other.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::bolt_client::BoltClient;
use crate::support::http::{self, basic, post};
use crate::support::say;
use crate::support::scripted_cluster::{Lines, ScriptedCluster};

/// One for each way in.
const USERS: [&str; 2] = ["ada", "bob"];
const NEW: &str = "becomes-right";
/// Far shorter than a refusal is remembered (`CREDENTIALS_REFUSED_MS`).
const BETWEEN: Duration = Duration::from_millis(150);
/// Attempts while the password is wrong: two times the memory of a refusal.
const WRONG: usize = 27;
/// Credentials that Neo4j has refused are asked about again when a window of 30 s is over; and a slow machine.
const ACCEPTED_WITHIN: Duration = Duration::from_secs(50);

async fn over_bolt(addr: SocketAddr) -> bool {
    let mut client = BoltClient::connect(addr).await.unwrap();
    client.log_on(USERS[0], NEW).await.unwrap().is_ok()
}

async fn over_http(addr: SocketAddr) -> bool {
    let body = json!({"statement": "RETURN 1"}).to_string();
    let request = post("/db/neo4j/query/v2", &basic(USERS[1], NEW), &body);
    http::ask(addr, &request).await.unwrap().status == 202
}

/// Tries on one node after the other, without an end, until both have accepted.
async fn accepted_after(
    cluster: &ScriptedCluster,
    user: &str,
    try_at: impl AsyncFn(usize) -> bool,
) -> Duration {
    for attempt in 0..WRONG {
        assert!(!try_at(attempt % 2).await, "the password is wrong");
        // tidy: the pace of the load
        tokio::time::sleep(BETWEEN).await;
    }
    cluster.neo4j.change_password(user, NEW);
    let (right, mut accepts, mut attempt) = (Instant::now(), [false; 2], 0);
    while accepts != [true; 2] {
        assert!(
            right.elapsed() < ACCEPTED_WITHIN,
            "{user}: {attempt} right log-ons were refused: {accepts:?}"
        );
        let node = attempt % 2;
        accepts[node] |= try_at(node).await;
        attempt += 1;
        // tidy: the pace of the load
        tokio::time::sleep(BETWEEN).await;
    }
    right.elapsed()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_password_that_becomes_right_is_accepted_while_clients_try() {
    let lines = Lines { node: "", origin: "", entry: "" };
    let users = USERS.map(|user| (user, "the-old-password"));
    let cluster = ScriptedCluster::start(&users, Duration::ZERO, lines).await;
    let nodes = &cluster.nodes;
    let (bolt, http) = tokio::join!(
        accepted_after(&cluster, USERS[0], async |node| over_bolt(nodes[node].addrs.bolt).await),
        accepted_after(&cluster, USERS[1], async |node| over_http(nodes[node].addrs.client).await),
    );
    say(&format!(
        "I5: two nodes accepted a password {} ms (Bolt) and {} ms (HTTP) after it became right",
        bolt.as_millis(),
        http.as_millis()
    ));
}
