//! Degrees on a real Neo4j (issue 5, "Degree"): `explain` shows whether one was hinted, learned or is unknown, and a
//! learned one is the graph's own.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::cluster::{OwnLabel, at_neo4j};
use crate::support::http;
use crate::support::lone::{Lone, Spec};
use crate::support::say;

/// Of the tests' user, with a hint.
async fn explain(node: &Lone, statement: &str, parameters: &Value, hint: &str) -> Value {
    let question =
        json!({"principal": "neo4j", "statement": statement, "parameters": parameters, "hint": hint});
    node.order("/admin/v1/explain", &question).await
}

fn degree(explained: &Value) -> (Option<u64>, &str) {
    let degree = &explained["refresh"]["degree"];
    (degree["value"].as_u64(), degree["source"].as_str().unwrap_or_default())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_learned_degree_is_the_graphs_own_and_explain_says_where_it_is_from() {
    let label = OwnLabel::new("Degree");
    at_neo4j(&format!(
        "CREATE (h:{0} {{id: 1}}) WITH h UNWIND range(2, 61) AS i CREATE (h)-[:KNOWS]->(f:{0} {{id: i}}) \
         WITH h, f WHERE f.id <= 20 CREATE (f)-[:LIKES]->(h)",
        label.0
    ))
    .await;
    let counted =
        at_neo4j(&format!("MATCH (h:{} {{id: 1}}) RETURN count {{ (h)--() }} AS degree", label.0)).await;
    assert_eq!(counted.value(), json!(79));
    // By default a degree counts only for a key that has no history before it expires. A node makes the plan anew every
    // 32nd of a TTL, and then sees that the degree is missing.
    let entry = "ttl = \"60s\"\n[refresh]\nmode = \"topology_sensitive\"".to_owned();
    let spec = Spec { entry, ..Spec::on("memory:") };
    let statement = format!("MATCH (p:{} {{id: $id}})-[:KNOWS]-(f) RETURN count(f) AS friends", label.0);
    let parameters = json!({"id": 1});
    let request = http::query(&statement, &parameters);

    // A busy Neo4j may take over a second for the question. The node then asks it no more for an hour, and another node does.
    let mut node = Lone::start(&spec).await;
    let explained = explain(&node, &statement, &parameters, "").await;
    assert_eq!(degree(&explained), (None, "unknown"), "{explained}");
    assert_eq!(explained["refresh"]["anchor"], json!({"label": label.0, "key": "id"}), "{explained}");
    assert_eq!(explained["refresh_probability"], Value::Null, "there is no copy yet: {explained}");
    for attempt in 1.. {
        let learned = tokio::time::timeout(Duration::from_secs(15), async {
            while degree(&node.explain(&statement, &parameters).await).1 != "learned" {
                assert_eq!(node.ask(&request).await.value(), json!(60));
            }
        });
        if learned.await.is_ok() {
            break;
        }
        assert!(attempt < 3, "no node learned the degree");
        node = Lone::start(&spec).await;
    }
    let explained = node.explain(&statement, &parameters).await;
    say(&format!("explain: {:#}", explained["refresh"]));
    assert_eq!(degree(&explained), (Some(79), "learned"));
    let refresh = &explained["refresh"];
    assert_eq!(refresh["mode"], "topology_sensitive");
    assert!(refresh["timing"].as_str().is_some_and(|timing| timing.starts_with("by chance")), "{refresh}");
    assert!(refresh["scale_ms"].is_f64() && refresh["ahead_ms"].is_f64(), "{refresh}");
    assert!(refresh["cost_ms"]["mean"].is_f64() && refresh["cost_ms"]["tail"].is_f64(), "{refresh}");
    assert!(refresh["rate_per_s"].as_f64().is_some_and(|rate| rate > 0.0), "{refresh}");
    let chance = explained["refresh_probability"].as_f64().expect("there is a copy");
    assert!((0.0..=1.0).contains(&chance), "{chance}");
    // The question is no run of a client's query.
    assert_eq!(node.count("hopcache_origin_runs_total", "").await, 1.0);

    let hinted = explain(&node, &statement, &parameters, "degree=500").await;
    assert_eq!(degree(&hinted), (Some(500), "hint"));
    let anywhere = format!("MATCH (p {{id: $id}}) WHERE p:{} RETURN p", label.0);
    let explained = node.explain(&anywhere, &parameters).await;
    assert_eq!((degree(&explained), &explained["refresh"]["anchor"]), ((None, "unknown"), &Value::Null));
    let body = json!({"statement": "RETURN 1", "hint": "degree=-1"}).to_string();
    let refused = http::ask(node.addrs.admin, &http::post("/admin/v1/explain", "", &body)).await.unwrap();
    assert_eq!(refused.status, 400, "{refused}");
    assert!(refused.to_string().contains("degree"), "{refused}");
}
