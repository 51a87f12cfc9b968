//! A degraded node: more load than the origin can take, principals that take it all, unbounded names, and a log without a
//! reader. Working parts have to go on working, other requests have to be refused quickly, and both have to be visible
//! (`readyz`, metrics, `status`). Faulty peers are in `crates/sim/tests/membership.rs`.
//!
//! | module | faults |
//! |---|---|
//! | `overload` | F42 (5 × overload, refreshes give way), F37 (many principals) |
//! | `cardinality` | F36 |
//! | `blocked_log` | F38 |
//!
//! Larger runs: `HOPCACHE_TEST_NAMES` (F36: sessions, texts and parameters, 1,500 of each), `HOPCACHE_TEST_OVERLOAD_S`
//! (F42: 3 s), `HOPCACHE_TEST_STRICT` (F42's own bound), `HOPCACHE_TEST_BINARY` (another build, for figures).

mod blocked_log;
mod cardinality;
mod overload;

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use crate::support::http::{basic, post};
use crate::support::scripted_cluster::{Lines, Nodes, ScriptedCluster};

/// User and password.
type Who = (&'static str, &'static str);
const ANN: Who = ("ann", "the-password-of-ann");

const LINES: Lines<'static> = Lines { node: "drain = \"2s\"", origin: "", entry: "ttl = \"10m\"" };

/// One node before a Neo4j whose runs take this time.
async fn one_node(delay: Duration, lines: Lines<'_>) -> ScriptedCluster {
    ScriptedCluster::of(Nodes(1, None), &[ANN], delay, lines).await
}

const STATEMENT: &str = "RETURN $k AS k";

fn read(who: Who, key: &str) -> Arc<[u8]> {
    let body = json!({"statement": STATEMENT, "parameters": {"k": key}});
    post("/db/neo4j/query/v2", &basic(who.0, who.1), &body.to_string())
}

fn percentile(of: &[Duration], percent: usize) -> Duration {
    let mut sorted = of.to_vec();
    sorted.sort_unstable();
    sorted[(sorted.len() - 1) * percent / 100]
}
