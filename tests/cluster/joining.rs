//! Seeds that do not run yet, and nodes that come later.

use serde_json::json;

use crate::support::cluster::{Cluster, Plan};
use crate::support::http;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_seed_stops_nobody_and_joins_when_it_starts() {
    let mut cluster = Cluster::of(Plan { started: 2, ..Plan::default() }).await;
    let statement = "RETURN $k AS k, 'dead seed' AS what";
    for k in 0..30 {
        let request = http::query(statement, &json!({ "k": k }));
        assert_eq!(cluster.nodes[k % 2].ask(&request).await.value(), k);
        assert!(cluster.nodes[(k + 1) % 2].ask(&request).await.is_hit());
    }
    cluster.bring_back(2).await;
    let parameters = cluster.owned_by(2, statement).await;
    let request = http::query(statement, &parameters);
    for node in &cluster.nodes {
        assert_eq!(node.ask(&request).await.value(), parameters["k"]);
    }
    assert_eq!(cluster.proxy.runs("dead seed"), 30 + usize::from(parameters["k"].as_u64() >= Some(30)));
}
