//! Requests that give every view something to show.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::cluster::{Cluster, OwnLabel};
use crate::support::http;
use crate::support::until;

/// Requests that wait for one run.
pub const CROWD: usize = 30;
/// People that the flow asks about. Each has two friends.
const PEOPLE: usize = 400;
/// Clients that ask at the same moment, in the flow.
const SMALL_CROWD: usize = 6;
/// Between two requests of the flow: a person looks at a page for a moment, so what is read ahead is there in time.
const PAUSE: Duration = Duration::from_millis(60);

pub struct Traffic {
    label: OwnLabel,
    /// A read that is hot.
    pub hot: String,
    follower: String,
}

impl Traffic {
    pub fn new() -> Self {
        // Of pictures for people, a label that people would choose.
        let label = match std::env::var_os("HOPCACHE_TEST_PICTURES") {
            Some(_) => OwnLabel("Customer".to_owned()),
            None => OwnLabel::new("Console"),
        };
        let hot = format!("MATCH (p:{} {{id: $id}}) RETURN p.name AS name", label.0);
        let follower = format!("MATCH (p:{} {{id: $id}})-[:KNOWS]-(f) RETURN f.id AS friend", label.0);
        Self { label, hot, follower }
    }

    /// Writes, reads in sessions, and statements that are not cached.
    pub async fn run(&self, cluster: &Cluster) {
        let clients = cluster.clients();
        let label = &self.label.0;
        let write = format!("UNWIND range(1, 8) AS id MERGE (:{label} {{id: id, name: 'person ' + id}})");
        ask(&clients, 0, &write, &json!({}), "writer").await;
        for session in 0..24 {
            let name = format!("session {session}");
            for statement in [&self.hot, &self.follower] {
                ask(&clients, session, statement, &json!({"id": 1 + session % 8}), &name).await;
            }
        }
        let volatile = format!("MATCH (p:{label}) WHERE p.born < timestamp() RETURN count(p)");
        ask(&clients, 1, &volatile, &json!({}), "now").await;
        for id in (1..5).cycle().take(40) {
            ask(&clients, id, &self.hot, &json!({ "id": id }), "reader").await;
        }
    }

    /// People with friends, for [`Traffic::flow`].
    pub async fn people(&self, cluster: &Cluster) {
        let label = &self.label.0;
        let write = format!(
            "UNWIND range(1, {PEOPLE}) AS id MERGE (p:{label} {{id: id}}) SET p.name = 'person ' + id WITH collect(p) AS all \
             UNWIND range(0, {PEOPLE} - 2) AS at WITH all[at] AS one, all[at + 1] AS other MERGE (one)-[:KNOWS]->(other)"
        );
        ask(&cluster.clients(), 0, &write, &json!({}), "writer").await;
    }

    /// Clients that never stop, each with a session of its own: a page of one person, then of the friends; now and then a
    /// write, a statement that is not cached, or some clients at once. Ends when it is aborted.
    pub async fn flow(self: Arc<Self>, clients: Vec<SocketAddr>) {
        let label = &self.label.0;
        for turn in 0_usize.. {
            let (session, id) = (format!("visitor {turn}"), 1 + (turn * turn + 7 * turn) % PEOPLE);
            for statement in [&self.hot, &self.follower] {
                ask(&clients, turn, statement, &json!({ "id": id }), &session).await;
                // tidy: load at a steady rate
                tokio::time::sleep(PAUSE).await;
            }
            match turn % 40 {
                5 | 25 => {
                    let seen = format!("MATCH (p:{label} {{id: $id}}) SET p.seen = $turn");
                    ask(&clients, turn, &seen, &json!({"id": id, "turn": turn}), "writer").await;
                }
                10 | 30 => {
                    let volatile =
                        format!("MATCH (p:{label}) WHERE p.seen < timestamp() RETURN count(p) AS seen");
                    ask(&clients, turn, &volatile, &json!({}), "now").await;
                }
                15 => {
                    let count = format!("MATCH (p:{label}) WHERE p.id > $id RETURN count(p) AS later");
                    let parameters = json!({ "id": turn });
                    let all = (0..SMALL_CROWD).map(|_| ask(&clients, turn, &count, &parameters, "many"));
                    futures_util::future::join_all(all).await;
                }
                _ => {}
            }
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

async fn ask(clients: &[SocketAddr], client: usize, statement: &str, parameters: &Value, session: &str) {
    let body = json!({"statement": statement, "parameters": parameters}).to_string();
    let headers = format!("{}hopcache-session: {session}\r\n", http::login());
    let request = http::post("/db/neo4j/query/v2", &headers, &body);
    let reply = http::ask(clients[client % clients.len()], &request).await.unwrap();
    assert_eq!(reply.status, 202, "{reply}");
}
