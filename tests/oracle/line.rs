//! A client's connections to the nodes, over both fronts, and what came of a statement.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::stage::{MEMBERS, Scene, bolt};
use super::texts::Text;
use crate::support::bolt_client::{BoltClient, Failure, Rows};
use crate::support::http::{self, Connection, Reply};

/// A paused node answers when it goes on.
const ANSWER_MAX: Duration = Duration::from_secs(60);

/// What a client knows of a statement that it sent.
#[derive(Debug)]
pub enum Said {
    /// It was carried out.
    Rows { status: String, rows: Vec<Value> },
    /// A whole answer, which says that it failed, or that nobody knows.
    Refused(String),
    /// No answer, or a part of one.
    Lost(String),
}

/// Both fronts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Front {
    Http,
    Bolt,
}

/// The connections of one client. They are opened when they are needed, and kept.
pub struct ClientConnections {
    scene: Arc<Scene>,
    http: [Option<Connection>; MEMBERS],
    bolt: [Option<BoltClient>; MEMBERS],
}

impl ClientConnections {
    pub fn new(scene: Arc<Scene>) -> Self {
        Self { scene, http: Default::default(), bolt: Default::default() }
    }

    /// An auto-commit statement.
    pub async fn run(
        &mut self,
        (node, front): (usize, Front),
        text: &Text,
        mode: &str,
        is_strict: bool,
    ) -> Said {
        match front {
            Front::Http => {
                let body = json!({"statement": text.statement, "parameters": text.parameters()});
                let strict = if is_strict { "hopcache-freshness: proved\r\n" } else { "" };
                let head = format!("{}{strict}", http::login());
                self.post(node, &http::post("/db/neo4j/query/v2", &head, &body.to_string())).await.0
            }
            Front::Bolt => {
                let mut extra = json!({"db": "neo4j", "mode": mode});
                if is_strict {
                    extra["tx_metadata"] = json!({"hopcache": {"freshness": "proved"}});
                }
                self.run_in(node, text, extra).await
            }
        }
    }

    /// RUN and PULL, in a transaction or with options of its own.
    pub async fn run_in(&mut self, node: usize, text: &Text, extra: Value) -> Said {
        self.by_bolt(node, async |client| {
            let ran = client.run_with(&text.statement, &text.parameters(), extra).await?;
            Ok(ran.map(|Rows { rows, cache_status, .. }| Said::Rows { status: cache_status, rows }))
        })
        .await
    }

    /// BEGIN.
    pub async fn begin(&mut self, node: usize) -> Said {
        let begin =
            async |client: &mut BoltClient| Ok(client.begin(json!({"db": "neo4j"})).await?.map(nothing));
        self.by_bolt(node, begin).await
    }

    /// COMMIT or ROLLBACK.
    pub async fn end(&mut self, node: usize, is_commit: bool) -> Said {
        self.by_bolt(node, async |client| {
            let ended = if is_commit { client.commit().await? } else { client.roll_back().await? };
            Ok(ended.map(nothing))
        })
        .await
    }

    /// Ends a connection, and its transaction.
    pub fn hang_up(&mut self, node: usize) {
        self.bolt[node] = None;
    }

    async fn by_bolt(
        &mut self,
        node: usize,
        say: impl AsyncFnOnce(&mut BoltClient) -> std::io::Result<Result<Said, Failure>>,
    ) -> Said {
        let addr = self.scene.addrs[node].bolt;
        let mut kept = self.bolt[node].take();
        let said = tokio::time::timeout(ANSWER_MAX, async {
            let client = match &mut kept {
                Some(client) => client,
                None => kept.insert(bolt(addr).await?),
            };
            say(client).await
        });
        match said.await {
            Ok(Ok(said)) => {
                self.bolt[node] = kept;
                said.unwrap_or_else(|failure| Said::Refused(format!("{}: {}", failure.code, failure.message)))
            }
            Ok(Err(error)) => Said::Lost(format!("bolt: {error}")),
            Err(_) => Said::Lost("bolt: no answer in time".to_owned()),
        }
    }

    /// A request, what came of it, and the transaction that it names.
    pub async fn post(&mut self, node: usize, request: &[u8]) -> (Said, String) {
        let addr = self.scene.addrs[node].client;
        let mut kept = self.http[node].take();
        let reply = tokio::time::timeout(ANSWER_MAX, async {
            let connection = match &mut kept {
                Some(connection) => connection,
                None => kept.insert(Connection::open(addr).await?),
            };
            connection.ask(request).await
        });
        match reply.await {
            Ok(Ok(reply)) => {
                if !reply.head.to_ascii_lowercase().contains("connection: close") {
                    self.http[node] = kept;
                }
                said_by(&reply)
            }
            Ok(Err(error)) => (Said::Lost(format!("http: {error}")), String::new()),
            Err(_) => (Said::Lost("http: no answer in time".to_owned()), String::new()),
        }
    }

    /// A request of an explicit transaction. `path` is empty for its beginning.
    pub async fn transaction(
        &mut self,
        node: usize,
        (method, path): (&str, &str),
        text: Option<&Text>,
    ) -> (Said, String) {
        let body = text.map_or_else(
            || "{}".to_owned(),
            |text| json!({"statement": text.statement, "parameters": text.parameters()}).to_string(),
        );
        let request = format!(
            "{method} /db/neo4j/query/v2/tx{path} HTTP/1.1\r\nhost: t\r\n{}content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            http::login(),
            body.len()
        );
        self.post(node, request.as_bytes()).await
    }
}

fn nothing(_: Value) -> Said {
    Said::Rows { status: String::new(), rows: Vec::new() }
}

fn said_by(reply: &Reply) -> (Said, String) {
    let body: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
    if !matches!(reply.status, 200 | 202) || body.get("errors").is_some() {
        let text = String::from_utf8_lossy(&reply.body);
        return (Said::Refused(format!("{} {text}", reply.status)), String::new());
    }
    let rows = body["data"]["values"].as_array().cloned().unwrap_or_default();
    let id = body["transaction"]["id"].as_str().unwrap_or_default().to_owned();
    (Said::Rows { status: reply.header("cache-status").to_owned(), rows }, id)
}
