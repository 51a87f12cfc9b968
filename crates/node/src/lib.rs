//! A hopcache node: both fronts, the admin listener, credentials, and the program around them.
//!
//! Requests come in at [`front`] (clients over HTTP), `bolt_front` (drivers), `hopcache_cluster::peer` (other nodes) and
//! [`admin`] (operators). They go through `hopcache-engine` and leave through `hopcache-store`, `hopcache-neo4j` and
//! `hopcache_cluster::peer`. [`node`] puts the parts together. This crate does not decide what is cached, for how long, or by
//! which node.

pub mod admin;
mod audit;
mod bolt_front;
pub mod cli;
mod cluster_keys;
pub mod credentials;
mod databases;
pub mod dev;
pub mod front;
pub mod front_question;
mod host_check;
mod listeners;
pub mod memory;
pub mod memory_split;
pub mod node;
pub mod node_state;
mod parse_turns;
mod peer_credentials;
pub mod peer_service;
mod renderer;
mod senders;
pub mod serve;
pub mod stop;
mod terminal;
mod transactions;
