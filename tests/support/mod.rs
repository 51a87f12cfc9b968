//! Parts of tests with real processes: nodes, Redis, a counting proxy before Neo4j, and clients.

pub mod authority;
pub mod balancer;
pub mod bolt_bytes;
pub mod bolt_client;
pub mod bolt_proxy;
pub mod cluster;
pub mod collector;
pub mod dice;
pub mod haproxy;
pub mod http;
pub mod load;
pub mod lone;
pub mod moved_clock;
#[allow(dead_code, reason = "shared with `crates/neo4j`, which uses the rest")]
pub mod neo4j_members;
pub mod own_neo4j;
pub mod pace;
pub mod process;
pub mod redis;
pub mod scripted_cluster;
pub mod scripted_neo4j;
pub mod scripted_orders;
#[allow(dead_code, reason = "shared with `crates/testbed`, which uses the rest")]
pub mod tcp_proxy;
pub mod turn;
pub mod udp_proxy;

use std::io::Write;
use std::str::FromStr;
use std::time::{Duration, Instant};

/// A variable that names a service. A test without its service fails; none is skipped.
pub fn environment(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set: run cargo xtask test"))
}

/// Rounds of the tests that repeat a fault; `HOPCACHE_TEST_ROUNDS` asks for more.
pub fn rounds() -> usize {
    size("HOPCACHE_TEST_ROUNDS", 3)
}

/// Waits until something is so; fails when it is not within the time.
pub async fn until(what: &str, within: Duration, mut holds: impl AsyncFnMut() -> bool) {
    value_within(what, within, async || holds().await.then_some(())).await;
}

/// Waits until there is a value. Fails if there is none in time.
pub async fn value_within<T>(what: &str, within: Duration, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + within;
    loop {
        if let Some(value) = look().await {
            return value;
        }
        assert!(Instant::now() < deadline, "not within {within:?}: {what}");
        // tidy: poll interval
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// A size that a variable may change: a number, or its usual one.
pub fn size<T: FromStr>(name: &str, usual: T) -> T {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name}: a number, not {text:?}")),
        Err(_) => usual,
    }
}

/// Says a measured figure beside the test's result.
pub fn say(line: &str) {
    let _ = std::io::stderr().write_all(format!("{line}\n").as_bytes());
}

/// Smallest, median, largest of some times, and all of them.
pub fn distribution(times: &[Duration]) -> String {
    let mut ms: Vec<u128> = times.iter().map(Duration::as_millis).collect();
    ms.sort_unstable();
    let at =
        |share: usize| ms.get((ms.len() * share / 100).min(ms.len().saturating_sub(1))).copied().unwrap_or(0);
    format!("min {} p50 {} p90 {} max {} ms of {}: {ms:?}", at(0), at(50), at(90), at(100), ms.len())
}
