//! Nodes, Redis and Neo4j in containers, on networks that the tests cut. Each test is a script (start, ask, cut, kill,
//! expect). A proxy before Neo4j counts runs, outside hopcache. The tests use hopcache only through its HTTP interface.
//!
//! Needs a Docker Engine on this machine and the images of `cargo xtask images node redis neo4j`; fails without them.
//! `HOPCACHE_IMAGE` names another node image. `HOPCACHE_TEST_ROUNDS=100` repeats each fault 100 times (default: twice
//! for a killed holder, once for the others). `HOPCACHE_TEST_STRICT=1` asserts I7's 0.5 s over 50 rounds or more. The
//! tests print figures to stderr (`-- --nocapture`). Logs of a failed test's containers are in
//! `target/containers/TEST`.

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
