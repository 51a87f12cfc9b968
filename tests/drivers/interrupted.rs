//! D9: what a driver's own suite asks of a server: a RESET under a statement, a COMMIT of nothing, a log-on with an unknown scheme. Each
//! is asked at Neo4j and at a node before it, and has to be answered in the same words.

use std::time::Duration;

use serde_json::{Value, json};

use crate::drivers::NEO4J;
use crate::drivers::raw::neo4j;
use crate::support::bolt_client::{BoltClient, Outcome};
use crate::support::cluster::{Cluster, OwnLabel, Plan, at_neo4j};
use crate::support::{environment, say, until};

const WAIT_MAX: Duration = Duration::from_secs(20);
/// A read that the cache runs, with no end within any test.
const ENDLESS: &str = "UNWIND range(1, 100) AS a UNWIND range(1, 100000) AS b UNWIND range(1, 100000) AS c \
    WITH a WHERE a > 100 RETURN a AS ";

async fn one_node() -> Cluster {
    Cluster::of(Plan { started: 1, seeded: 1, prefetch: None, ..Plan::default() }).await
}

async fn logged_on(addr: &str) -> BoltClient {
    let mut client = BoltClient::connect(addr.parse().unwrap()).await.unwrap();
    client.log_on("neo4j", &environment("HOPCACHE_TEST_NEO4J_PASSWORD")).await.unwrap().unwrap();
    client
}

/// Whether Neo4j runs a statement with these words, in this state.
async fn is_at_neo4j(words: &str, status: &str) -> bool {
    let show = format!(
        "SHOW TRANSACTIONS YIELD currentQuery, status WHERE currentQuery CONTAINS '{words}' \
         AND NOT currentQuery STARTS WITH 'SHOW' AND status STARTS WITH '{status}' RETURN count(*) AS n"
    );
    at_neo4j(&show).await.value() != 0
}

/// The outcomes of RUN, PULL and RESET of a statement that waits for a lock, and whether the connection works on.
async fn reset_while_it_waits(addr: &str, label: &str, in_transaction: bool) -> [Outcome; 3] {
    let mut client = logged_on(addr).await;
    if in_transaction {
        client.begin(json!({})).await.unwrap().unwrap();
    }
    let write = format!("MATCH (n:{label}) SET n.v = 2 RETURN n.v AS v");
    client.send_run_with(&write, &json!({}), &json!({})).await.unwrap();
    until("it waits for the lock", WAIT_MAX, async || is_at_neo4j(label, "Blocked").await).await;
    let outcomes = client.reset_after(2).await.unwrap();
    let rows = client.run("neo4j", "RETURN 1 AS one", &json!({})).await.unwrap().unwrap();
    assert_eq!(rows.rows, [json!([1])], "the connection works on");
    outcomes.try_into().expect("RUN, PULL and RESET")
}

/// Without the name of the lock's client, which each transaction has for itself.
fn in_words(mut outcome: Outcome) -> Outcome {
    if let Outcome::Failed(failure) = &mut outcome {
        failure.message.truncate(failure.message.find("ForsetiClient").unwrap_or(failure.message.len()));
    }
    outcome
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reset_fails_what_waits_for_a_lock() {
    let _writes = NEO4J.read().await;
    let label = OwnLabel::new("Locked");
    let cluster = one_node().await;
    at_neo4j(&format!("CREATE (:{} {{v: 0}})", label.0)).await;
    let mut holder = logged_on(&neo4j()).await;
    holder.begin(json!({})).await.unwrap().unwrap();
    let lock = format!("MATCH (n:{}) SET n.v = 1", label.0);
    holder.run_with(&lock, &json!({}), json!({})).await.unwrap().unwrap();
    let node = cluster.nodes[0].addrs.bolt.to_string();
    for in_transaction in [false, true] {
        let theirs = reset_while_it_waits(&neo4j(), &label.0, in_transaction).await;
        let ours = reset_while_it_waits(&node, &label.0, in_transaction).await;
        assert!(matches!(&theirs, [Outcome::Well, Outcome::Failed(_), Outcome::Well]), "{theirs:?}");
        say(&format!("D9: RESET while PULL waits for a lock: {:?}", ours[1]));
        assert_eq!(ours.map(in_words), theirs.map(in_words), "in a transaction: {in_transaction}");
    }
    holder.roll_back().await.unwrap().unwrap();
}

/// A read that the cache runs answers its RUN with its first record, so its RUN fails where at Neo4j its PULL does. The words are those of
/// Neo4j 5.26.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reset_fails_a_read_that_runs() {
    let label = OwnLabel::new("Interrupted");
    let cluster = one_node().await;
    let read = format!("{ENDLESS}{}", label.0);
    let mut client = logged_on(&cluster.nodes[0].addrs.bolt.to_string()).await;
    client.send_run_with(&read, &json!({}), &json!({"mode": "r"})).await.unwrap();
    until("it runs", WAIT_MAX, async || is_at_neo4j(&label.0, "Running").await).await;
    let outcomes = client.reset_after(2).await.unwrap();
    let [Outcome::Failed(failure), Outcome::Ignored, Outcome::Well] = &outcomes[..] else {
        panic!("RUN fails, PULL is ignored, RESET is answered: {outcomes:?}")
    };
    assert_eq!(failure.code, "Neo.ClientError.Transaction.Terminated");
    assert!(failure.message.ends_with("Explicitly terminated by the user. "), "{failure:?}");
    until("it has ended", WAIT_MAX, async || !is_at_neo4j(&label.0, "").await).await;
}

/// Also the first one of a node, which has asked Neo4j for nothing before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_of_nothing_has_a_bookmark() {
    let cluster = one_node().await;
    let mut client = logged_on(&cluster.nodes[0].addrs.bolt.to_string()).await;
    for _ in 0..3 {
        client.begin(json!({"db": "neo4j"})).await.unwrap().unwrap();
        let committed = client.commit().await.unwrap().unwrap();
        let bookmark = committed["bookmark"].as_str().expect("a bookmark");
        let after = json!({"db": "neo4j", "mode": "r", "bookmarks": [bookmark]});
        client.run_with("RETURN 1 AS one", &json!({}), after).await.unwrap().expect("Neo4j knows it");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_token_is_refused_in_neo4js_words() {
    let cluster = one_node().await;
    let (theirs, ours) = (neo4j(), cluster.nodes[0].addrs.bolt.to_string());
    let tokens = [
        json!({"scheme": "nonsense", "principal": "neo4j", "credentials": "x"}),
        json!({"scheme": "nonsense"}),
        json!({"scheme": "kerberos", "principal": "", "credentials": "x"}),
        json!({"scheme": "basic", "principal": "neo4j"}),
    ];
    for token in tokens {
        let ask = async |addr: &str, token: &Value| {
            let mut client = BoltClient::connect(addr.parse().unwrap()).await.unwrap();
            client.log_on_by(token.clone()).await.unwrap().unwrap_err()
        };
        assert_eq!(ask(&ours, &token).await, ask(&theirs, &token).await, "{token}");
    }
}
