//! A cluster of real engines in one thread: paused clock, seeded dice, and a network, a store and an
//! origin that do what a test tells them.
//!
//! The engines are the production ones; only what is behind their ports is simulated. Nothing here
//! reads a clock or opens a socket. [`World`] is for tests that write a schedule by hand; [`simulate`](simulate::simulate)
//! runs the schedule of a seed, with the checkers of [`check`] after every step.

mod acts;
pub mod check;
mod clients;
mod cluster;
pub mod coverage;
pub mod dice;
mod door;
mod living;
pub mod members;
pub mod minimise;
pub mod net;
mod node_tasks;
pub mod origin;
pub mod profile;
pub mod record;
#[cfg(test)]
mod sharing;
pub mod simulate;
mod spread;
pub mod store;
pub mod storm;
pub mod subject;
pub mod switch;
mod talk;
mod tally;
pub mod udp;
pub mod world;

pub use world::{NodeHandle, World};
