//! A cluster of real engines in one thread, with a paused clock and seeded dice. A test tells the network, the store
//! and the origin what to do.
//!
//! The engines are the production ones; only their ports are simulated. Nothing here reads the real clock or opens a
//! socket. [`World`] is for tests that write a schedule by hand. [`simulate`](drive::simulate::simulate) runs the schedule of
//! a seed, and the checkers of [`check`] run after every step.
//!
//! The tests of `crates/engine` are in this crate's `tests/`, because only this crate has a cluster for them. One file
//! of them: `cargo test -p hopcache-sim --test scenes promises::`.

pub mod check;
pub mod drive;
pub mod world;

pub use world::World;
pub use world::node_handle::NodeHandle;
