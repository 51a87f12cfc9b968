//! F28: the connection to Neo4j breaks in mid-run.

use std::time::Duration;

use serde_json::json;

use crate::support::cluster::Cluster;
use crate::support::http;

/// F28, I10, I11: the waiters get an error, nothing is stored, and the next request runs again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_cut_at_the_origin_stores_nothing() {
    let cluster = Cluster::start().await;
    let request = http::query("RETURN 'cut' AS what", &json!({}));
    cluster.proxy.delay_runs("'cut'", Duration::from_secs(1));
    let clients = cluster.clients();
    let crowd = (0..30).map(|client| (clients[client % 3], request.clone())).collect();
    let asking = tokio::spawn(http::crowd(crowd));
    assert!(cluster.proxy.wait_until("'cut'", Duration::from_secs(10), |runs| !runs.is_empty()).await);
    cluster.proxy.cut();
    for reply in asking.await.unwrap() {
        let reply = reply.unwrap();
        // The leader gets the error. Its followers compete once more and get the result of the next run.
        assert!(matches!(reply.status, 202 | 503), "{reply}");
    }
    assert!(cluster.proxy.runs("'cut'") <= 2, "{} runs", cluster.proxy.runs("'cut'"));
    let again = cluster.nodes[0].ask(&request).await;
    assert_eq!(again.value(), "cut");
    assert!(cluster.redis.keys("hopcache:*:l").is_empty());
}
