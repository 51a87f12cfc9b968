//! Writes past Hopcache that somebody tells (`POST /admin/v1/invalidate`): what they have touched ends, and nothing else.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::support::cluster::{Cluster, OwnLabel, Plan, at_neo4j};
use crate::support::http;

/// Entries outlive the test, so that only an invalidation ends them.
const PLAN: fn() -> Plan = || Plan { prefetch: None, entry: "ttl = \"1h\"", ..Plan::default() };

struct Read {
    request: Arc<[u8]>,
}

impl Read {
    fn of(statement: &str) -> Self {
        Self { request: http::query(statement, &json!({})) }
    }

    /// The value and whether it was a hit, at each node.
    async fn everywhere(&self, cluster: &Cluster) -> Vec<(Value, bool)> {
        let mut answers = Vec::new();
        for node in &cluster.nodes {
            let reply = node.ask(&self.request).await;
            answers.push((json!(reply.value()), reply.is_hit()));
        }
        answers
    }

    async fn is_hit_everywhere(&self, cluster: &Cluster) -> bool {
        self.everywhere(cluster).await.iter().all(|(_, is_hit)| *is_hit)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_told_write_has_touched_ends_on_every_node_and_nothing_else_does() {
    let cluster = Cluster::of(PLAN()).await;
    let (told, other) = (OwnLabel::new("Told"), OwnLabel::new("Untold"));
    let (told, other) = (&told.0, &other.0);
    at_neo4j(&format!("CREATE (:{told} {{at: 1, seen: 1}}), (:{other} {{at: 1}})")).await;
    let at = Read::of(&format!("MATCH (n:{told}) RETURN n.at AS at"));
    let seen = Read::of(&format!("MATCH (n:{told}) RETURN n.seen AS seen"));
    let elsewhere = Read::of(&format!("MATCH (n:{other}) RETURN count(n) AS count"));
    for read in [&at, &seen, &elsewhere] {
        read.everywhere(&cluster).await;
        assert!(read.is_hit_everywhere(&cluster).await);
    }

    at_neo4j(&format!("MATCH (n:{told}) SET n.at = 2")).await;
    assert_eq!(at.everywhere(&cluster).await, vec![(json!(1), true); 3], "nobody has told");
    let order = json!({"database": "neo4j", "keys": ["at"]});
    let answer = cluster.nodes[1].order("/admin/v1/invalidate", &order).await;
    assert_eq!(answer["ended"], "touched", "{answer}");
    assert!(seen.is_hit_everywhere(&cluster).await, "another key");
    assert!(elsewhere.is_hit_everywhere(&cluster).await, "no key at all");
    let values = at.everywhere(&cluster).await;
    assert!(values.iter().all(|(value, _)| *value == json!(2)), "{values:?}");

    at_neo4j(&format!("MATCH (n:{told}) SET n.at = 3, n.seen = 3")).await;
    let order = json!({"database": "neo4j", "labels": [told]});
    cluster.nodes[2].order("/admin/v1/invalidate", &order).await;
    assert!(elsewhere.is_hit_everywhere(&cluster).await, "another label");
    assert_eq!(at.everywhere(&cluster).await[0].0, json!(3));
    assert_eq!(seen.everywhere(&cluster).await[0].0, json!(3));

    // A node without a label: who counts all nodes depends on no label and no key.
    let all = Read::of("MATCH (n) RETURN count(n) AS count_of_told");
    let before = all.everywhere(&cluster).await[0].0.clone();
    at_neo4j("CREATE ()").await;
    let order = json!({"database": "neo4j", "nodes": true});
    cluster.nodes[1].order("/admin/v1/invalidate", &order).await;
    assert_ne!(all.everywhere(&cluster).await[0].0, before);
    assert!(elsewhere.is_hit_everywhere(&cluster).await, "it has a label");

    at_neo4j(&format!("CREATE (:{other} {{at: 1}})")).await;
    cluster.nodes[0].order("/admin/v1/invalidate", &json!({"database": "neo4j", "anything": true})).await;
    for read in [&at, &seen, &elsewhere] {
        assert!(!read.everywhere(&cluster).await[0].1, "anything may have changed");
    }
    assert_eq!(elsewhere.everywhere(&cluster).await, vec![(json!(2), true); 3]);
}
