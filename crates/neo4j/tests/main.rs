//! The origin on a real Neo4j: the contract of the engine's port, faults, and what anchors find.

mod anchors_real;
#[path = "../../../tests/support/bolt_bytes.rs"]
#[allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::panic,
    reason = "shared with the end-to-end tests, which use all of it"
)]
mod bolt_bytes;
#[path = "../../../tests/support/neo4j_members.rs"]
#[allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "shared with the end-to-end tests, which use all of it"
)]
mod neo4j_members;
mod origin_contract;
mod origin_suite;
mod routed;
