//! `neo4j://` before a cluster: every ready node is in the table, and a node that leaves costs no driver an error.

use std::time::Duration;

use crate::drivers::NEO4J;
use crate::drivers::install::Running;
use crate::support::cluster::{Cluster, OwnLabel, Plan};
use crate::support::{environment, say};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_is_drained_costs_no_error() {
    let _writes = NEO4J.read().await;
    let password = environment("HOPCACHE_TEST_NEO4J_PASSWORD");
    let label = OwnLabel::new("Cluster");
    let mut cluster = Cluster::of(Plan { prefetch: None, ..Plan::default() }).await;
    let uri = format!("neo4j://{}", cluster.nodes[0].addrs.bolt);
    let mut load = Running::python("cluster", &[&uri, "neo4j", &password, &label.0]);
    assert_eq!(load.line(), "begun");
    // Not the node of the URL: the driver begins with that node's table.
    cluster.nodes[1].signal("TERM");
    assert!(cluster.nodes[1].exit(Duration::from_secs(30)).await.success());
    let seen: DriverResult = serde_json::from_str(&load.finish()).unwrap();
    assert_eq!(seen.errors, Vec::<String>::new(), "of {} transactions", seen.done);
    assert!(seen.done >= 60 && seen.servers.len() == 3, "{} transactions on {:?}", seen.done, seen.servers);
    say(&format!(
        "a node drained under {:.0} transactions/s: {} transactions, 0 errors",
        seen.per_s, seen.done
    ));
}

/// Reads, and writes that are still to be sent, are tried again by the driver. Only a write whose answer was lost may not be:
/// its commit may have happened.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_is_killed_costs_at_most_the_commits_under_way() {
    let _writes = NEO4J.read().await;
    let password = environment("HOPCACHE_TEST_NEO4J_PASSWORD");
    let label = OwnLabel::new("Killed");
    let mut cluster = Cluster::of(Plan { prefetch: None, ..Plan::default() }).await;
    let uri = format!("neo4j://{}", cluster.nodes[0].addrs.bolt);
    let mut load = Running::python("cluster", &[&uri, "neo4j", &password, &label.0]);
    assert_eq!(load.line(), "begun");
    cluster.nodes[1].signal("KILL");
    cluster.nodes[1].exit(Duration::from_secs(30)).await;
    let seen: DriverResult = serde_json::from_str(&load.finish()).unwrap();
    say(&format!(
        "a node killed under {:.0} transactions/s: {} transactions, errors {:?}",
        seen.per_s, seen.done, seen.errors
    ));
    let is_lost_commit = |error: &&String| error.contains("IncompleteCommit");
    let others: Vec<_> = seen.errors.iter().filter(|error| !is_lost_commit(error)).collect();
    assert!(others.is_empty(), "{others:?}");
    assert!(seen.errors.len() <= seen.clients, "one commit under way for each client: {:?}", seen.errors);
}

/// What `cluster.py` has seen.
#[derive(Debug, serde::Deserialize)]
pub(super) struct DriverResult {
    pub(super) done: usize,
    pub(super) per_s: f64,
    pub(super) clients: usize,
    pub(super) errors: Vec<String>,
    pub(super) servers: Vec<String>,
}
