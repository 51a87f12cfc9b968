//! A hopcache node: adapters for the ports of the engine (axum, redis, Bolt, the embedded store and graph), and the
//! program around them.
//!
//! Requests come in at [`front`] (clients), [`peer`] (other nodes) and [`admin`] (operators). They go through
//! `hopcache-engine` and leave through [`store`], [`origin`] and [`peer`]. [`node`] puts the parts together. This crate
//! does not decide what is cached, for how long, or by which node.

pub mod admin;
mod audit;
pub mod body;
mod body_budget;
mod bolt_front;
pub mod cli;
pub mod client_addr;
pub mod clock;
mod cluster_keys;
pub mod config;
mod connection_slots;
pub mod connection_timeouts;
pub mod credentials;
mod crowding;
mod databases;
pub mod descriptors;
pub mod dev;
pub mod front;
pub mod gossip;
mod host_check;
pub mod hot;
pub mod joining;
pub mod labels;
pub mod listener;
mod listeners;
pub mod logging;
pub mod membership;
pub mod memory;
pub mod memory_split;
pub mod meters;
pub mod node;
pub mod node_state;
pub mod origin;
mod parse_turns;
pub mod peer;
mod peer_credentials;
pub mod peer_service;
pub mod refusal_response;
mod renderer;
pub mod replay_window;
mod request_log;
pub mod routing;
mod senders;
pub mod sentences;
pub mod serve;
pub mod stop;
pub mod store;
mod terminal;
pub mod tls;
pub mod traces;
mod transactions;
