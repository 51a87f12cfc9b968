//! Nodes, Redis and Neo4j in containers, on networks that are cut: scripts of what happens (start, ask, cut, kill,
//! expect). Runs are counted outside hopcache, by a proxy before Neo4j. Knows hopcache by its HTTP interface only.
//!
//! Needs a Docker Engine on this machine and the images of `cargo xtask images node redis neo4j`; fails where they
//! are not. `HOPCACHE_IMAGE` names another node image. `HOPCACHE_TEST_ROUNDS=100` repeats each fault 100 times (a killed
//! holder's twice, the others once, otherwise); `HOPCACHE_TEST_STRICT=1` asserts I7's 0.5 s over 50 rounds or more.
//! Figures are said on stderr (`-- --nocapture`); logs of a failed test's containers are kept in `target/containers/TEST`.
#![allow(
    dead_code,
    unreachable_pub,
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "test code may fail the test; each test binary uses its part of support"
)]

#[path = "../support/mod.rs"]
mod support;

mod docker;
mod holder_cut;
mod holder_killed;
mod holder_paused;
mod node;
mod origin;
mod owner_cut;
mod redis;
mod rolling;
mod store;
mod world;
