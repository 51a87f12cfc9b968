//! One node that is ready as soon as it serves, even if it reaches neither store nor origin.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

use super::authority::TlsClient;
use super::process::{Addrs, NodeProcess};
use super::{environment, until};

/// The settings of a lone node.
#[derive(Debug, Clone)]
pub struct Spec {
    /// Further lines of `[node]`.
    pub node: String,
    /// Lines of `[origin]`.
    pub origin: String,
    /// `store.uri`.
    pub store: String,
    /// `store.ca_file`.
    pub store_ca: Option<PathBuf>,
    /// Lines of `[entry]`.
    pub entry: String,
    /// False if a prefetch would disturb the test's counts; the test says which.
    pub prefetches: bool,
    /// For the admin listener, where it has TLS.
    pub admin_tls: Option<TlsClient>,
}

impl Spec {
    /// On the sample graph and a store in its memory.
    pub fn embedded(node: &str) -> Self {
        Self {
            node: format!("drain = \"2s\"\n{node}"),
            origin: "uri = \"embedded:\"".to_owned(),
            store: "memory:".to_owned(),
            store_ca: None,
            entry: "ttl = \"10m\"".to_owned(),
            prefetches: true,
            admin_tls: None,
        }
    }

    /// On the real Neo4j and this store.
    pub fn on(store: &str) -> Self {
        let uri = environment("HOPCACHE_TEST_NEO4J_BOLT");
        Self {
            node: "drain = \"2s\"".to_owned(),
            origin: format!("uri = \"{uri}\"\ntimeout = \"10s\""),
            store: store.to_owned(),
            store_ca: None,
            entry: "ttl = \"10m\"".to_owned(),
            prefetches: true,
            admin_tls: None,
        }
    }

    /// With its Neo4j at another address.
    pub fn behind(self, bolt: std::net::SocketAddr) -> Self {
        Self { origin: format!("uri = \"bolt://{bolt}\"\ntimeout = \"10s\""), ..self }
    }
}

/// A node and its directory.
pub struct Lone {
    pub node: NodeProcess,
    _dir: tempfile::TempDir,
}

impl std::ops::Deref for Lone {
    type Target = NodeProcess;
    fn deref(&self) -> &NodeProcess {
        &self.node
    }
}

impl Lone {
    pub async fn start(spec: &Spec) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let Spec { node, origin, store, store_ca, entry, prefetches, admin_tls } = spec;
        let ca_file = store_ca.as_ref().map(|path| format!("ca_file = {path:?}\n")).unwrap_or_default();
        let config =
            format!("{node}\n[origin]\n{origin}\n[store]\nuri = \"{store}\"\n{ca_file}[entry]\n{entry}\n");
        let mut node = NodeProcess::new(dir.path(), "node-a", Addrs::free(1)[0], &config);
        node.prefetches = *prefetches;
        node.admin_tls.clone_from(admin_tls);
        node.start();
        let lone = Self { node, _dir: dir };
        lone.wait_for_members(1).await;
        lone
    }

    /// SIGKILL and a new start: its memory is empty then.
    pub async fn again(&mut self) {
        self.node.kill();
        self.node.start();
        self.node.wait_for_members(1).await;
    }

    /// The body of `readyz`. The node has to be ready.
    pub async fn ready(&self) -> Value {
        let reply = self.admin("/readyz").await.unwrap();
        assert_eq!(reply.status, 200, "{reply}");
        reply.json()
    }

    /// Waits until nothing is degraded.
    pub async fn wait_until_well(&self) {
        until("nothing is degraded", Duration::from_secs(20), async || {
            self.ready().await["degraded"] == serde_json::json!([])
        })
        .await;
    }

    /// Waits until a part is degraded; why, in the node's words.
    pub async fn wait_until_degraded(&self, part: &str) -> String {
        until(&format!("{part} is degraded"), Duration::from_secs(20), async || {
            self.ready().await["degraded"] == serde_json::json!([part])
        })
        .await;
        self.ready().await["why"][part].as_str().unwrap_or_default().to_owned()
    }

    /// A counter; 0 if there is none.
    pub async fn count(&self, name: &str, labels: &str) -> f64 {
        self.metric(name, labels).await.unwrap_or(0.0)
    }

    /// How often its log has a text.
    pub fn log_count(&self, text: &str) -> usize {
        self.log().matches(text).count()
    }
}

impl Drop for Lone {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let log = self.node.log();
            assert!(!log.contains("panicked"), "the node panicked (I13): {log}");
        }
    }
}
