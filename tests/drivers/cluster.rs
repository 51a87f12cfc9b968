//! `neo4j://` before a cluster: every ready node is in the table, and a node that leaves costs no driver an error.

use std::time::Duration;

use crate::NEO4J;
use crate::install::Running;
use crate::support::cluster::{Cluster, OwnLabel, Plan};
use crate::support::environment;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_is_drained_costs_no_error() {
    let _writes = NEO4J.read().await;
    let password = environment("HOPCACHE_TEST_NEO4J_PASSWORD");
    let label = OwnLabel::new("Cluster");
    let mut cluster = Cluster::of(Plan { prefetch: None, ..Plan::default() }).await;
    let uri = format!("neo4j://{}", cluster.nodes[0].addrs.bolt);
    let mut load = Running::python("cluster.py", &[&uri, "neo4j", &password, &label.0]);
    assert_eq!(load.line(), "begun");
    // Not the node of the URL: the driver begins with that node's table.
    cluster.nodes[1].signal("TERM");
    assert!(cluster.nodes[1].exit(Duration::from_secs(30)).await.success());
    let (done, errors, servers): (usize, Vec<String>, Vec<String>) =
        serde_json::from_str(&load.finish()).unwrap();
    assert_eq!(errors, Vec::<String>::new(), "of {done} transactions");
    assert!(done >= 60 && servers.len() == 3, "{done} transactions on {servers:?}");
}
