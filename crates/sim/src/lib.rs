//! A cluster of real engines in one thread: paused clock, seeded dice, and a network, a store and an
//! origin that do what a test tells them.
//!
//! The engines are the production ones; only what is behind their ports is simulated. Nothing here
//! reads a clock or opens a socket. [`World`] is for tests that write a schedule by hand; [`simulate`](simulate::simulate)
//! runs the schedule of a seed, with the checkers of [`check`] after every step.

pub mod check;
mod cluster;
pub mod dice;
pub mod members;
pub mod net;
pub mod origin;
pub mod profile;
pub mod record;
pub mod simulate;
pub mod store;
pub mod subject;
pub mod switch;
pub mod world;

pub use world::{NodeHandle, World};
