//! A client that closes its sending side behind its request (`nc -N`) gets its answer, as at Neo4j.

use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::Alone;
use crate::support::cluster::{OwnLabel, at_neo4j};
use crate::support::http;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_closes_its_side_behind_a_request_is_answered() {
    let alone = Alone::start("").await;
    let hit = alone.warm("RETURN 'half closed' AS x").await;
    let label = OwnLabel::new("HalfClosed");
    let write = http::query(&format!("CREATE (n:{}) RETURN 1 AS x", label.0), &json!({}));
    // Longer than the node waits before it asks whether the client is still there.
    alone.proxy.delay_runs(&label.0, Duration::from_secs(1));
    for request in [hit, write] {
        let mut stream = http::connect(alone.node.addrs.client).await.unwrap();
        stream.write_all(&request).await.unwrap();
        stream.shutdown().await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.contains("HTTP/1.1 202 ") && answer.contains("\"values\""), "{answer:?}");
    }
    assert_eq!(at_neo4j(&format!("MATCH (n:{}) RETURN count(n)", label.0)).await.value(), 1);
}
