//! The testbed: the parts that benchmarks and trials share. It starts processes, sends load, causes faults and records
//! events. It uses hopcache only through its HTTP interface. It measures nothing and judges nothing.
//!
//! | module | holds |
//! |---|---|
//! | [`process`] | child processes, a Redis |
//! | [`node`] | one node, and a cluster of nodes from one configuration with its Redis |
//! | [`listener`] | which process of this machine listens on a port |
//! | [`cluster`] | a cluster for faults: nodes with their own address and user id, a store with a replica, an origin |
//! | [`http`], [`neo4j`] | a small HTTP client; the Neo4j that the environment names |
//! | [`dice`] | seeded random numbers |
//! | [`metrics`], [`report`] | Prometheus text; Markdown reports |
//! | [`bolt_proxy`], [`bolt_bytes`], [`tcp_proxy`] | proxies of `tests/support`, the same files as the tests use |

#[path = "../../../tests/support/bolt_bytes.rs"]
#[allow(
    dead_code,
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::panic,
    reason = "shared with the tests, which use all of it; only what reads is used here, and it never panics"
)]
pub mod bolt_bytes;
#[path = "../../../tests/support/bolt_proxy.rs"]
#[allow(dead_code, missing_docs, unreachable_pub, reason = "shared with the tests, which use all of it")]
pub mod bolt_proxy;
pub mod cluster;
pub mod dice;
pub mod http;
pub mod listener;
pub mod metrics;
pub mod neo4j;
pub mod node;
pub mod process;
pub mod report;
#[path = "../../../tests/support/tcp_proxy.rs"]
#[allow(
    dead_code,
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "shared with the tests, which use all of it; only the start may panic, where no port is free"
)]
pub mod tcp_proxy;
