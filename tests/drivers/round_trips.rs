//! What a client sends together reaches Neo4j together: a driver's BEGIN, RUN and PULL cost one round trip, as without Hopcache.

use std::time::Duration;

use serde_json::json;
use tokio::time::timeout;

use crate::support::bolt_client::BoltClient;
use crate::support::lone::{Lone, Spec};
use crate::support::scripted_neo4j::ScriptedNeo4j;

/// A node that sends RUN, and waits for its answer before it sends PULL, waits for ever.
const WAIT_MAX: Duration = Duration::from_secs(20);
const USER: (&str, &str) = ("writer", "secret-of-writer");

/// This Neo4j answers BEGIN and RUN when PULL has come.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn run_and_pull_of_a_transaction_reach_neo4j_together() {
    let neo4j = ScriptedNeo4j::start(&[USER], Duration::ZERO).await;
    neo4j.allow_transactions();
    let spec =
        Spec { origin: format!("uri = \"{}\"\ntimeout = \"10s\"", neo4j.uri()), ..Spec::on("memory:") };
    let node = Lone::start(&spec).await;
    let mut client = BoltClient::connect(node.addrs.bolt).await.unwrap();
    client.log_on(USER.0, USER.1).await.unwrap().unwrap();
    for k in ["one", "two"] {
        let written = async {
            client.begin(json!({"db": "neo4j"})).await.unwrap().unwrap();
            let first = client.run_with("CREATE (:A {k: $k})", &json!({ "k": k }), json!({})).await.unwrap();
            let second = client.run_with("CREATE (:B {k: $k})", &json!({ "k": k }), json!({})).await.unwrap();
            client.commit().await.unwrap().unwrap();
            [first, second].map(|rows| rows.expect("rows").rows)
        };
        let rows = timeout(WAIT_MAX, written).await.expect("Neo4j has got PULL together with RUN");
        assert_eq!(rows[0], [json!(["writer", "", k, ""])]);
        assert_eq!(rows[1], rows[0], "each PULL is of its own statement");
    }
    // Neo4j ignores the PULL behind a RUN that it refuses.
    client.begin(json!({"db": "neo4j"})).await.unwrap().unwrap();
    let three = json!({"k": "three"});
    let refused = client.run_with("CREATE (:A {k: $k}) // FAIL", &three, json!({}));
    let refused = timeout(WAIT_MAX, refused).await.expect("the refusal").unwrap().unwrap_err();
    assert_eq!(refused.message, "writer||three");
    client.write("neo4j", "CREATE (:A {k: $k})", &json!({"k": "four"})).await.unwrap().unwrap();
}
