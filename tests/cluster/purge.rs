//! A purge through any node, and the output of explain before and after it.

use serde_json::json;

use crate::support::cluster::{Cluster, OwnLabel, at_neo4j};
use crate::support::http;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_purge_through_one_node_is_seen_by_all() {
    let label = OwnLabel::new("Purge");
    let cluster = Cluster::start().await;
    at_neo4j(&format!("CREATE (:{} {{value: 1}})", label.0)).await;
    let statement = format!("MATCH (n:{}) RETURN n.value AS value", label.0);
    let request = http::query(&statement, &json!({}));
    let place = cluster.owner(&statement, &json!({})).await;
    for node in &cluster.nodes {
        assert_eq!(node.ask(&request).await.value(), 1);
    }
    cluster.redis.committed().await;
    let explained = cluster.nodes[(place + 1) % 3].explain(&statement, &json!({})).await;
    assert_eq!(explained["entry"]["state"], "fresh", "{explained}");
    assert_eq!(explained["entry"]["stored_by"], cluster.nodes[place].name.as_str(), "{explained}");
    assert!(explained["lease"].is_null(), "{explained}");

    at_neo4j(&format!("MATCH (n:{}) SET n.value = 2", label.0)).await;
    let purge = json!({ "query_key": explained["query_key"] });
    let purged = cluster.nodes[(place + 2) % 3].order("/admin/v1/purge", &purge).await;
    assert_eq!((&purged["entries"], &purged["nodes"]), (&json!(1), &json!(3)), "{purged}");
    let emptied = cluster.nodes[0].explain(&statement, &json!({})).await;
    assert!(emptied["entry"].is_null(), "{emptied}");
    let next = cluster.nodes[(place + 1) % 3].ask(&request).await;
    assert!(!next.is_hit(), "{next}");
    for node in &cluster.nodes {
        assert_eq!(node.ask(&request).await.value(), 2);
    }
    assert_eq!(cluster.proxy.runs(&label.0), 2, "one run before the purge, one after");
}
