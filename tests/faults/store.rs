//! F15 to F22, F24, F43, F46, F55: a Redis that is slow, gone, empty, full, read-only, restored or lying, under load.
//!
//! `crates/store/tests/store_contract/faults.rs` tests the adapter alone under most of these. Here it is a `hopcache
//! serve` process with clients and operators. `outage_under_load.rs` is must-show 1; `HOPCACHE_TEST_STORE_SECONDS=60`
//! (default 2) sets how long Redis is stopped, and gone, in it.

mod acl;
mod clock_jump;
mod failover;
mod lost_answers;
mod outage_under_load;
mod restored;
mod unhealthy;

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use crate::support::bolt_proxy::BoltProxy;
use crate::support::http;

const BREAKER: &str = "hopcache_breaker_transitions_total";
const COMMITS: &str = "hopcache_commits_total";
const WAIT_MAX: Duration = Duration::from_secs(20);

/// The statement of key `k` of a test, and its request. Its text belongs to the test, for the counting proxy. It
/// contains the key, so that an answer shows its query.
fn asks(test: &str, k: usize) -> (String, Arc<[u8]>) {
    let statement = format!("RETURN '{test} {k}.' AS what");
    let request = http::query(&statement, &json!({}));
    (statement, request)
}

async fn counting_proxy() -> BoltProxy {
    let upstream = crate::support::environment("HOPCACHE_TEST_NEO4J_BOLT");
    BoltProxy::start(upstream.trim_start_matches("bolt://").trim_end_matches('/')).await.unwrap()
}

async fn run_arrives(proxy: &BoltProxy, statement: &str, runs: usize) {
    let arrived = proxy.wait_until(statement, WAIT_MAX, |seen| seen.len() >= runs).await;
    assert!(arrived, "run {runs} of {statement} did not arrive");
}
