//! A cluster of real engines in one thread: paused clock, seeded dice, and a network, a store and an
//! origin that do what a test tells them.
//!
//! The engines are the production ones; only what is behind their ports is simulated. Nothing here
//! reads a clock or opens a socket. What it is not yet: a random explorer of schedules with checkers
//! after every step; that is built on these parts.

pub mod explore;
pub mod net;
pub mod origin;
pub mod store;
pub mod switch;
pub mod world;

pub use world::{NodeHandle, World};
