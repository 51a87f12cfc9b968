//! Requests that give every view something to show.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::cluster::{Cluster, OwnLabel};
use crate::support::http;
use crate::support::until;

/// Requests that wait for one run.
pub const CROWD: usize = 30;

pub struct Traffic {
    label: OwnLabel,
    /// A read that is hot.
    pub hot: String,
    follower: String,
}

impl Traffic {
    pub fn new() -> Self {
        let label = OwnLabel::new("Console");
        let hot = format!("MATCH (p:{} {{id: $id}}) RETURN p.name AS name", label.0);
        let follower = format!("MATCH (p:{} {{id: $id}})--(f) RETURN f.id AS friend", label.0);
        Self { label, hot, follower }
    }

    /// Writes, reads in sessions, and statements that are not cached.
    pub async fn run(&self, cluster: &Cluster) {
        let label = &self.label.0;
        let write = format!("UNWIND range(1, 8) AS id MERGE (:{label} {{id: id, name: 'person ' + id}})");
        ask(cluster, 0, &write, &json!({}), "writer").await;
        for session in 0..24 {
            let name = format!("session {session}");
            for statement in [&self.hot, &self.follower] {
                ask(cluster, session, statement, &json!({"id": 1 + session % 8}), &name).await;
            }
        }
        let volatile = format!("MATCH (p:{label}) WHERE p.born < timestamp() RETURN count(p)");
        ask(cluster, 1, &volatile, &json!({}), "now").await;
        for id in (1..5).cycle().take(40) {
            ask(cluster, id, &self.hot, &json!({ "id": id }), "reader").await;
        }
    }

    /// Many clients of one node want one key while its run is held.
    pub async fn crowd(&self, cluster: &Cluster) {
        let statement = format!("MATCH (p:{}) RETURN count(p) AS stampede", self.label.0);
        let owner = &cluster.nodes[cluster.owner(&statement, &json!({})).await];
        cluster.proxy.hold_runs("stampede");
        let request = http::query(&statement, &json!({}));
        let crowd = http::crowd((0..CROWD).map(|_| (owner.addrs.client, Arc::clone(&request))).collect());
        let crowd = tokio::spawn(crowd);
        let all_wait =
            async || owner.explain(&statement, &json!({})).await["flight"]["followers"] == json!(CROWD - 1);
        until("all but one follow the flight", Duration::from_secs(60), all_wait).await;
        cluster.proxy.resume();
        for reply in crowd.await.unwrap() {
            assert_eq!(reply.unwrap().status, 202);
        }
    }
}

async fn ask(cluster: &Cluster, client: usize, statement: &str, parameters: &Value, session: &str) {
    let clients = cluster.clients();
    let body = json!({"statement": statement, "parameters": parameters}).to_string();
    let headers = format!("{}hopcache-session: {session}\r\n", http::login());
    let request = http::post("/db/neo4j/query/v2", &headers, &body);
    let reply = http::ask(clients[client % clients.len()], &request).await.unwrap();
    assert_eq!(reply.status, 202, "{reply}");
}
