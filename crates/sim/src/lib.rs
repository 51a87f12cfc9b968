//! A cluster of real engines in one thread: paused clock, seeded dice, and a network, a store and an
//! origin that do what a test tells them.
//!
//! The engines are the production ones; only what is behind their ports is simulated. Nothing here
//! reads a clock or opens a socket. [`World`] is for tests that write a schedule by hand; [`simulate`](simulate::simulate)
//! runs the schedule of a seed, with the checkers of [`check`] after every step.

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
pub mod udp;
pub mod world;

pub use node_handle::NodeHandle;
pub use world::World;
