//! F31, F32, F34: slow, many, never reading and smuggling clients, and bytes that are no HTTP.
//!
//! `HOPCACHE_TEST_CONNECTIONS` is how many connections over the limit are opened (500 by default).

mod connection_limit;
mod half_closed;
mod malformed;
mod other_listeners;
mod slow_clients;
mod smuggling;

use std::sync::Arc;

use serde_json::json;

use crate::support::bolt_proxy::BoltProxy;
use crate::support::http::{self, Reply};
use crate::support::process::{Addrs, NodeProcess, raise_open_files};
use crate::support::{environment, until};

/// One node with its own store, and a counting proxy before Neo4j.
struct Alone {
    node: NodeProcess,
    proxy: BoltProxy,
    _dir: tempfile::TempDir,
}

impl Alone {
    /// A node with these lines in `[node]`.
    async fn start(lines: &str) -> Self {
        raise_open_files();
        let upstream = environment("HOPCACHE_TEST_NEO4J_BOLT");
        let upstream = upstream.trim_start_matches("bolt://").trim_end_matches('/');
        let proxy = BoltProxy::start(upstream).await.unwrap();
        let dir = tempfile::tempdir().unwrap();
        let config = format!(
            "drain = \"2s\"\n{lines}\n[origin]\nuri = \"bolt://{}\"\n[entry]\nttl = \"10m\"\n",
            proxy.addr()
        );
        let mut node = NodeProcess::new(dir.path(), "alone", Addrs::free(1)[0], &config);
        node.start();
        node.wait_for_members(1).await;
        Self { node, proxy, _dir: dir }
    }

    async fn refused(&self, reason: &str) -> f64 {
        let labels = format!("listener=\"client\",reason=\"{reason}\"");
        self.node.metric("hopcache_connections_refused_total", &labels).await.unwrap()
    }

    /// Waits until this many connections were refused for a reason.
    async fn wait_for_refused(&self, reason: &str, count: usize, within: std::time::Duration) {
        let what = format!("{count} connections are refused as {reason}");
        until(&what, within, async || self.refused(reason).await >= count as f64).await;
    }

    /// A query that is cached from now on.
    async fn warm(&self, statement: &str) -> Arc<[u8]> {
        let request = http::query(statement, &json!({}));
        self.node.ask(&request).await;
        assert!(self.node.ask(&request).await.is_hit());
        request
    }
}

/// An error in Neo4j's shape, with this status and a code that ends so.
fn assert_error(what: &str, reply: &Reply, status: u16, code: &str) {
    assert_eq!(reply.status, status, "{what}: {reply}");
    assert_eq!(reply.header("content-type").split(';').next(), Some("application/json"), "{what}: {reply}");
    let error = &reply.json()["errors"][0];
    assert!(error["code"].as_str().unwrap().ends_with(code), "{what}: {reply}");
    assert!(!error["message"].as_str().unwrap().is_empty(), "{what}: {reply}");
}
