//! Issue 7, bad input: a template whose values the real Neo4j refuses with a type error. It is counted as waste, not
//! launched again, and no client sees the error.

use std::time::Duration;

use serde_json::{Value, json};

use super::accounting::{LaunchAccount, balanced};
use super::social_graph::{in_session, learning_node, sum, think};
use crate::support::cluster::Cluster;
use crate::support::http::Reply;
use crate::support::{say, until};

const WAIT_MAX: Duration = Duration::from_secs(20);
const SIZE: &str = "RETURN size($list) AS typed_size";
const TWICE: &str = "UNWIND $list AS typed RETURN typed * 2 AS twice";

async fn ask(cluster: &Cluster, session: &str, statement: &str, list: &Value) -> Reply {
    cluster.nodes[0].ask(&in_session(session, statement, &json!({ "list": list }))).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_template_that_neo4j_refuses_is_dropped_and_nobody_hears_of_it() {
    let cluster = learning_node().await;
    for n in 20..28 {
        let (session, list) = (format!("typed {n}"), json!([n, n + 1]));
        assert_eq!(ask(&cluster, &session, SIZE, &list).await.status, 202);
        think().await;
        assert_eq!(ask(&cluster, &session, TWICE, &list).await.status, 202);
    }
    until("the walks are learned", WAIT_MAX, async || {
        sum(&cluster, "hopcache_observations_total", "\"learned\"").await >= 8.0
    })
    .await;
    let before = LaunchAccount::of(&cluster.nodes[0]).await.unwrap();
    let runs =
        |part: &str| cluster.proxy.seen("AS twice").iter().filter(|run| run.query.contains(part)).count();
    // Text cannot be multiplied: to the template it is a list like any other.
    let reply = ask(&cluster, "pupil", SIZE, &json!(["word", "other"])).await;
    assert_eq!(reply.value(), 2, "a client of the first query gets no error");
    until("Neo4j refuses the prefetch", WAIT_MAX, async || {
        let now = LaunchAccount::of(&cluster.nodes[0]).await.unwrap();
        runs("\"word\"") == 1 && now.wasted > before.wasted
    })
    .await;
    let failed = sum(&cluster, "hopcache_origin_errors_total", "\"failed\"").await;
    assert_eq!(failed, 1.0, "the run that Neo4j refused is counted");
    // The template is not launched again, not even for values of the right type: a node cannot know which those are.
    let launched = LaunchAccount::of(&cluster.nodes[0]).await.unwrap().launched;
    let learned = sum(&cluster, "hopcache_observations_total", "\"learned\"").await;
    assert_eq!(ask(&cluster, "pupil", SIZE, &json!([501, 502])).await.status, 202);
    until("that was learned from, so what may follow it was considered", WAIT_MAX, async || {
        sum(&cluster, "hopcache_observations_total", "\"learned\"").await > learned
    })
    .await;
    assert_eq!(runs("501"), 0, "the template is dropped");
    assert_eq!(LaunchAccount::of(&cluster.nodes[0]).await.unwrap().launched, launched);
    // A client that asks for it gets Neo4j's error by its own run. Requests with right values are answered.
    let reply = ask(&cluster, "other pupil", TWICE, &json!(["word", "other"])).await;
    assert_eq!(reply.status, 400, "{reply}");
    let error = reply.json()["errors"][0].to_string();
    assert!(error.contains("Neo.ClientError.Statement.") && error.contains("Type"), "{reply}");
    assert_eq!(runs("\"word\""), 2);
    assert_eq!(ask(&cluster, "other pupil", TWICE, &json!([501])).await.value(), 1002);
    let account = balanced(&cluster.nodes).await;
    say(&format!("issue 7, type error: refused once, dropped; {account:?}"));
}
