//! Queries in log lines (`log.queries`). Without it, at `debug`, no line of any node has a statement, a parameter or a
//! password. With it, the line of each answer has the statement, and no line has a parameter or a password.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::cluster::{Cluster, Plan};
use crate::support::http::{self, post, query};
use crate::support::{environment, say, until};

/// In the text of every statement.
const STATEMENT: &str = "canary_statement_51d2";
/// In the name and in the value of every parameter.
const PARAMETER: &str = "canary_parameter_8ac4";
/// In every session's id.
const SESSION: &str = "canary-session-07fe";

fn in_session(statement: &str, parameters: &Value, header: &str) -> Arc<[u8]> {
    let body = json!({"statement": statement, "parameters": parameters}).to_string();
    post("/db/neo4j/query/v2", &format!("{}hopcache-session: {SESSION}\r\n{header}", http::login()), &body)
}

/// Misses, hits, forwards, refusals, failures, a write, predictions, and operators' questions, through every node.
async fn ask_everything(cluster: &Cluster) {
    let parameters = |k: usize| json!({ PARAMETER: format!("{PARAMETER}-{k}") });
    let read = format!("RETURN ${PARAMETER} AS {STATEMENT}");
    for k in 0..4 {
        for node in &cluster.nodes {
            assert_eq!(node.ask(&in_session(&read, &parameters(k), "")).await.status, 202);
            let next = format!("RETURN size(${PARAMETER}) AS next_{STATEMENT}");
            assert_eq!(node.ask(&in_session(&next, &parameters(k), "")).await.status, 202);
        }
    }
    let node = &cluster.nodes[0];
    for (statement, status) in [
        (format!("RETURN ${PARAMETER} AS {STATEMENT} RETURN"), 400),
        (format!("RETURN 1/0 AS {STATEMENT}"), 202), // Neo4j tells the failure of a run that has begun in the body.
        (format!("RETURN toInteger(${PARAMETER}) + $missing AS {STATEMENT}"), 400),
        (format!("CREATE (n:{STATEMENT} {{p: ${PARAMETER}}}) DELETE n"), 202),
        (format!("MATCH (n:{STATEMENT}) WHERE rand() > 2 RETURN n"), 202),
    ] {
        let reply = node.ask(&query(&statement, &parameters(0))).await;
        assert_eq!(reply.status, status, "{statement}: {reply}");
    }
    let broken = post("/db/neo4j/query/v2", &http::login(), &format!("{{\"statement\": \"{STATEMENT}"));
    assert_eq!(node.ask(&broken).await.status, 400);
    for header in ["cache-control: no-store\r\n", "cache-control: no-cache\r\n"] {
        assert_eq!(node.ask(&in_session(&read, &parameters(1), header)).await.status, 202);
    }
    // A run that is cut, and one that takes too long for its client.
    cluster.proxy.trouble("cut", crate::support::bolt_proxy::Trouble::CutAfter(0), 1);
    let reply = node.ask(&query(&format!("RETURN 'cut' AS {STATEMENT}"), &parameters(0))).await;
    assert!(reply.status == 202 || reply.status >= 500, "{reply}");
    let explained = node.explain(&read, &parameters(0)).await;
    node.order("/admin/v1/purge", &json!({ "query_key": explained["query_key"] })).await;
    until("sessions are learned from", Duration::from_secs(20), async || {
        let mut learned = 0.0;
        for node in &cluster.nodes {
            learned += node.metric("hopcache_observations_total", "\"learned\"").await.unwrap_or(0.0);
        }
        learned >= 1.0
    })
    .await;
}

/// The logs of all nodes at `debug` after all kinds of requests.
async fn logs(more: &str) -> String {
    let entry = format!("ttl = \"10m\"\n[log]\nlevel = \"debug\"\n{more}").leak();
    let cluster = Cluster::of(Plan { entry, ..Plan::default() }).await;
    ask_everything(&cluster).await;
    cluster.nodes.iter().map(crate::support::process::NodeProcess::log).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_log_line_has_a_query_unless_the_operator_asked_for_it() {
    let password = environment("HOPCACHE_TEST_NEO4J_PASSWORD");
    let hidden = logs("").await;
    assert!(
        hidden.contains("answered") && hidden.contains("<hidden>"),
        "these are the lines at debug: {hidden}"
    );
    for secret in [STATEMENT, PARAMETER, SESSION, &password] {
        let line = hidden.lines().find(|line| line.contains(secret));
        assert_eq!(line, None, "a log line has {secret}");
    }
    let shown = logs("queries = true").await;
    let with_text = shown.lines().filter(|line| line.contains(STATEMENT)).count();
    assert!(with_text >= 24, "{with_text} lines have a statement: {shown}");
    for line in shown.lines().filter(|line| line.contains(STATEMENT)) {
        assert!(line.contains("DEBUG") && line.contains("answered"), "{line}");
    }
    for secret in [&*format!("{PARAMETER}-"), SESSION, &password] {
        let line = shown.lines().find(|line| line.contains(secret));
        assert_eq!(line, None, "a log line has {secret}");
    }
    say(&format!(
        "log.queries: {} lines of three nodes at debug without it have no query; with it {with_text} lines have the statement, none a parameter",
        hidden.lines().count()
    ));
}
