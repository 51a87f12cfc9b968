//! Background load that keeps the origin at its limit: each connection has one uncached read under way all the time.
//! The load's answers are not measured.

use std::net::SocketAddr;

use anyhow::Context;
use serde_json::json;
use tokio::task::JoinSet;

use hopcache_testbed::http::{Connection, post};

/// The proxy before the origin holds it back like the walks' queries.
const STATEMENT: &str = "RETURN $n AS benched";

/// Runs until it is stopped or dropped.
pub(super) struct BackgroundLoad {
    asking: JoinSet<anyhow::Result<()>>,
}

impl BackgroundLoad {
    /// This many connections to each node; 0 for none.
    pub(super) async fn start(nodes: &[SocketAddr], connections: usize, login: &str) -> anyhow::Result<Self> {
        let headers = format!("{login}cache-control: no-store\r\n");
        let mut asking = JoinSet::new();
        for (number, node) in (0..connections).flat_map(|_| nodes).enumerate() {
            let mut connection = Connection::open(*node).await?;
            let request = post(STATEMENT, &json!({ "n": number }), &headers);
            asking.spawn(async move {
                loop {
                    // A node that sheds load answers at once. The connection asks again, so the origin stays full.
                    connection.ask(&request).await?;
                }
            });
        }
        Ok(Self { asking })
    }

    /// An error where a connection ended before.
    pub(super) fn stop(mut self) -> anyhow::Result<()> {
        match self.asking.try_join_next() {
            Some(ended) => ended?.context("the background load ended before it was stopped"),
            None => Ok(()),
        }
    }
}
