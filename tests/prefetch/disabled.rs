//! `prefetch.enabled = false`: nothing is observed, learned, shared or launched, and both views show that.

use serde_json::json;

use super::accounting::balanced;
use super::social_graph::{People, in_session, successors, sum, think};
use crate::support::cluster::{Cluster, Plan};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_does_not_prefetch_observes_nothing() {
    let people = People::new("Off", 16).await;
    let cluster = Cluster::of(Plan { started: 1, seeded: 1, prefetch: None, ..Plan::default() }).await;
    let node = &cluster.nodes[0];
    for person in 0..6 {
        let session = format!("walker {person}");
        let friends = in_session(&session, &people.friends(), &json!({ "id": 100 + person }));
        let friend = node.ask(&friends).await.value();
        think().await;
        node.ask(&in_session(&session, &people.profile(), &json!({ "person": friend }))).await;
    }
    for name in [
        "hopcache_observations_total",
        "hopcache_learning_shared_total",
        "hopcache_sessions",
        "hopcache_learned_patterns",
        "hopcache_learned_forms",
        "prefetch_skipped_total",
        "prefetch_attempts_total",
    ] {
        assert_eq!(sum(&cluster, name, "").await, 0.0, "{name}");
    }
    let view = successors(node, "").await;
    assert_eq!((&view["is_on"], &view["patterns"]), (&json!(false), &json!([])), "{view}");
    let long = in_session(&"x".repeat(129), &people.profile(), &json!({ "person": 100 }));
    assert_eq!(node.ask(&long).await.status, 400, "a header means the same whether prefetch is on or off");
    assert_eq!(balanced(&cluster.nodes).await.launched, 0.0);
}
