//! Nodes, Redis and Neo4j in containers, on networks that the tests cut (F2, F6, F7): what no proxy before a process can
//! show. A proxy before Neo4j counts runs, outside hopcache. The tests use hopcache only through its HTTP interface.
//!
//! Needs a Docker Engine on this machine and the images of `cargo xtask images node redis neo4j`; fails without them.
//! `HOPCACHE_IMAGE` names another node image. The tests print figures to stderr (`-- --nocapture`). Logs of a failed
//! test's containers are in `target/containers/TEST`.

mod docker;
mod holder_cut;
mod node;
mod owner_cut;
mod redis;
mod world;
