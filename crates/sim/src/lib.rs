//! A cluster of real engines in one thread, with a paused clock and seeded dice. A test tells the network, the store
//! and the origin what to do.
//!
//! The engines are the production ones; only their ports are simulated. Nothing here reads the real clock or opens a
//! socket. [`World`] is for tests that write a schedule by hand. [`simulate`](simulate::simulate) runs the schedule of
//! a seed, and the checkers of [`check`] run after every step.
//!
//! The tests of `crates/engine` are in this crate's `tests/`, because only this crate has a cluster for them. One file
//! of them: `cargo test -p hopcache-sim --test scenes promises::`.

mod actions;
pub mod check;
pub mod churn;
mod clients;
pub mod clock;
mod cluster;
pub mod coverage;
pub mod dice;
pub mod event_log;
mod gossip_command;
mod gossip_task;
mod listeners;
pub mod map_memory;
pub mod members;
mod membership_changes;
pub mod minimise;
pub mod names;
pub mod net;
pub mod node_handle;
mod node_tasks;
pub mod origin;
pub mod policy;
pub mod process;
pub mod profile;
pub mod query_api_renderer;
pub mod record;
mod seed_counters;
#[cfg(test)]
mod sharing;
pub mod simulate;
mod spread;
pub mod store;
pub mod subject;
mod transactions;
pub mod udp;
pub mod world;
pub mod write_statement;
mod writers;

pub use node_handle::NodeHandle;
pub use world::World;
