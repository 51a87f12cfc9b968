//! Nodes on a scripted Neo4j behind the counting proxy, and how an answer says how fresh it is.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use crate::support::cluster::{Cluster, Plan};
use crate::support::http::{self, Reply};
use crate::support::process::NodeProcess;
use crate::support::redis::RedisServer;
use crate::support::scripted_neo4j::ScriptedNeo4j;
use crate::support::{environment, until, value_within};

pub const WAIT_MAX: Duration = Duration::from_secs(20);
pub const TRANSIENT: &str = "Neo.TransientError.General.DatabaseUnavailable";
/// Users of the scripted server besides the tests' own.
pub const ANN: (&str, &str) = ("ann", "secret-of-ann");
pub const BOB: (&str, &str) = ("bob", "secret-of-bob");

/// Nodes with a scripted Neo4j.
pub struct ScriptedCluster {
    pub cluster: Cluster,
    pub neo4j: ScriptedNeo4j,
}

impl Deref for ScriptedCluster {
    type Target = Cluster;
    fn deref(&self) -> &Cluster {
        &self.cluster
    }
}

impl DerefMut for ScriptedCluster {
    fn deref_mut(&mut self) -> &mut Cluster {
        &mut self.cluster
    }
}

impl ScriptedCluster {
    /// `entry` are lines of `[entry]`, and of sections behind it; `origin` of `[origin]`.
    pub async fn start(nodes: usize, entry: &'static str, origin: &'static str) -> Self {
        Self::with_runs_of(Duration::ZERO, nodes, entry, origin).await
    }

    /// The same with runs of this time: runs without a duration hardly ever overlap.
    pub async fn with_runs_of(
        run: Duration,
        nodes: usize,
        entry: &'static str,
        origin: &'static str,
    ) -> Self {
        let redis = RedisServer::start().await;
        let uri = redis.uri();
        Self::of(run, nodes, (entry, origin), (redis, &uri)).await
    }

    /// The same on this Redis, which the nodes find at `store`.
    pub async fn on(
        nodes: usize,
        entry: &'static str,
        origin: &'static str,
        redis: RedisServer,
        store: &str,
    ) -> Self {
        Self::of(Duration::ZERO, nodes, (entry, origin), (redis, store)).await
    }

    async fn of(
        run: Duration,
        nodes: usize,
        (entry, origin): (&'static str, &'static str),
        (redis, store): (RedisServer, &str),
    ) -> Self {
        let password = environment("HOPCACHE_TEST_NEO4J_PASSWORD");
        let users = [("neo4j", password.as_str()), ANN, BOB];
        let neo4j = ScriptedNeo4j::start(&users, run).await;
        let upstream = Some(neo4j.addr());
        // Tests of this lane count the refreshes of keys that expire. A prefetch runs a stale or dying entry as well.
        let prefetch = None;
        let plan =
            Plan { started: nodes, seeded: nodes, entry, origin, upstream, prefetch, ..Plan::default() };
        Self { cluster: Cluster::on(plan, redis, store).await, neo4j }
    }

    /// Asks at the first node.
    pub async fn ask(&self, request: &Arc<[u8]>) -> Reply {
        self.nodes[0].ask(request).await
    }

    /// Asks for a query that is not kept yet, so that it becomes an entry of the store.
    pub async fn warm(&self, request: &Arc<[u8]>) {
        let reply = self.ask(request).await;
        assert!(reply.header("cache-status").contains("; stored"), "{reply}");
        self.redis.committed().await;
    }

    /// Waits until the entry's soft TTL is over. Sends no client request, so that nothing refreshes the entry.
    pub async fn until_expired(&self, statement: &str) {
        until_expired(&self.nodes[0], statement).await;
    }

    /// The same, also where nothing outlives the soft TTL in the store.
    pub async fn until_expired_or_gone(&self, statement: &str) {
        until(&format!("{statement} is over"), WAIT_MAX, async || {
            let explained = self.nodes[0].explain(statement, &json!({})).await;
            explained["entry"]["ttl_ms"].as_i64().is_none_or(|left| left <= -50)
        })
        .await;
    }

    /// Waits until a run has brought a fresh answer.
    pub async fn until_fresh(&self, request: &Arc<[u8]>) -> Reply {
        until_fresh(&self.nodes[0], request).await
    }
}

pub async fn until_expired(node: &NodeProcess, statement: &str) {
    until(&format!("{statement} expires"), WAIT_MAX, async || {
        let explained = node.explain(statement, &json!({})).await;
        explained["entry"]["ttl_ms"].as_i64().is_some_and(|left| left <= -50)
    })
    .await;
}

pub async fn until_fresh(node: &NodeProcess, request: &Arc<[u8]>) -> Reply {
    value_within("a fresh answer", WAIT_MAX, async || {
        let reply = node.ask(request).await;
        assert_eq!(reply.status, 202, "{reply}");
        (!is_stale(&reply)).then_some(reply)
    })
    .await
}

/// Sum of a metric over nodes. Dead nodes have none; at least one node has to show it.
pub async fn total(nodes: &[NodeProcess], name: &str, labels: &str) -> f64 {
    let mut shown = Vec::new();
    for node in nodes {
        shown.extend(node.metric(name, labels).await);
    }
    assert!(!shown.is_empty(), "no node shows {name}{{{labels}}}");
    shown.iter().sum()
}

/// The key's statement, whose answers have the test's version, and its request.
pub fn versioned(name: &str) -> (String, Arc<[u8]>) {
    let statement = format!("RETURN 'VERSION {name}.' AS what");
    let request = http::query(&statement, &json!({}));
    (statement, request)
}

/// The same question with a request header.
pub fn with_header(statement: &str, header: &str) -> Arc<[u8]> {
    let body = json!({ "statement": statement, "parameters": {} }).to_string();
    http::post("/db/neo4j/query/v2", &format!("{}{header}\r\n", http::login()), &body)
}

/// Lines of `[entry]` without jitter, and the lines after them.
pub fn lines(ttl: &str, grace: f64, stale_if_error: &str, more: &str) -> &'static str {
    let text = format!(
        "ttl = \"{ttl}\"\ngrace = {grace:?}\nstale_if_error = \"{stale_if_error}\"\nttl_jitter = 0.0\n{more}"
    );
    text.leak()
}

/// `ttl` of the node with the entry: the remaining soft TTL, negative when it is over.
pub fn ttl_s(reply: &Reply) -> Option<i64> {
    let status = reply.header("cache-status");
    let ttl = status.split("; ttl=").nth(1)?;
    ttl.split([';', ',']).next()?.trim().parse().ok()
}

pub fn age_s(reply: &Reply) -> u64 {
    reply.header("age").parse().unwrap_or_else(|_| panic!("no Age: {reply}"))
}

/// A 202 from an entry past its soft TTL, marked as such.
pub fn is_stale(reply: &Reply) -> bool {
    let is_past = ttl_s(reply).is_some_and(|ttl| ttl < 0);
    let is_marked = reply.header("cache-status").contains("detail=stale");
    assert_eq!(is_past, is_marked, "half marked as stale: {reply}");
    reply.status == 202 && reply.is_hit() && is_past
}

/// Stale, and because the origin failed.
pub fn is_stale_if_error(reply: &Reply) -> bool {
    is_stale(reply) && reply.header("cache-status").contains("detail=stale-if-error")
}

pub fn code(reply: &Reply) -> String {
    reply.json()["errors"][0]["code"].as_str().unwrap_or_default().to_owned()
}
