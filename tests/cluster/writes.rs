//! I6: writes are never collapsed.

use serde_json::json;

use crate::support::cluster::{Cluster, OwnLabel, at_neo4j};
use crate::support::http;

/// I6: 100 identical CREATEs at the same time through three nodes make 100 nodes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_creates_make_a_hundred_nodes() {
    let label = OwnLabel::new("Creates");
    let cluster = Cluster::start().await;
    let request = http::query(&format!("CREATE (n:{}) RETURN 1 AS made", label.0), &json!({}));
    let clients = cluster.clients();
    let crowd = (0..100).map(|client| (clients[client % 3], request.clone())).collect();
    for reply in http::crowd(crowd).await {
        let reply = reply.unwrap();
        assert_eq!(reply.status, 202, "{reply}");
        assert!(reply.header("cache-status").contains("detail=write"), "{reply}");
    }
    let made = at_neo4j(&format!("MATCH (n:{}) RETURN count(n) AS made", label.0)).await;
    assert_eq!(made.value(), 100);
    assert_eq!(cluster.proxy.runs(&label.0), 100);
    assert!(cluster.redis.keys("hopcache:*:[el]").is_empty(), "a write left something in the store");
}
