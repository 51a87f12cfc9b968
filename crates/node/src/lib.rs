//! A hopcache node: the assembly of its parts, and the program around them.
//!
//! Requests come in at `hopcache_fronts` (clients over HTTP, drivers over Bolt), `hopcache_cluster::peer` (other nodes) and
//! `hopcache_admin` (operators). They go through `hopcache-engine` and leave through `hopcache-store`, `hopcache-neo4j` and
//! `hopcache_cluster::peer`. [`node`] puts the parts together. This crate does not decide what is cached, for how long, or by
//! which node.

pub mod cli;
mod cluster_keys;
pub mod dev;
mod listeners;
pub mod memory_split;
pub mod node;
pub mod peer_service;
pub mod serve;
pub mod stop;
mod terminal;
