//! The request path of a hopcache node, over ports.
//!
//! The engine decides with `hopcache-core` and acts through [`ports`]: clock, dice, store, origin,
//! peers, routing, memory, observer. It opens no socket, reads no clock of its own and draws no random
//! number of its own, so the same engine runs in production and in a deterministic simulator.
//!
//! Start reading at `path.rs`: it is DESIGN section 3 as one function.

mod alone;
pub mod ask;
mod bypass;
pub mod classify;
pub mod copy;
pub mod degree;
pub mod engine;
pub mod explain;
pub mod flight;
#[cfg(test)]
mod flight_tests;
mod handover;
mod here;
mod history;
mod holdings;
pub mod identity;
mod lead;
mod leaving;
pub mod message;
mod near;
pub mod outcome;
pub mod outlook;
mod path;
mod pause;
mod peer_breakers;
mod peer_side;
pub mod ports;
pub mod prefetch;
pub mod purge;
mod refresh;
mod restraint;
mod route;
mod run;
mod seams;
#[cfg(hopcache_seeded)]
mod seeded;
mod setbacks;
pub mod sizes;
mod span;
mod spares;
mod win;

pub use engine::{Engine, Policy, Ports, RefreshPolicy, Secrets};
pub use handover::RingChange;
pub use peer_side::Inspection;
