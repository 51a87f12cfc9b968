//! The node's side of gossip: one UDP socket on the peer port, sealed datagrams, and what is heard handed on.
//!
//! | module | decides |
//! |---|---|
//! | [`seal`] | which datagrams are believed |
//! | [`refused`] | how those that are not are counted and said |
//! | [`socket`] | in which order datagrams, timers and orders are handled |
//! | `schedule` | to whom this node announces itself |
//! | [`handle`] | what the rest of the node may ask for |
//!
//! Never here: what gossip says (crate `hopcache-gossip`), and who is routed to ([`crate::membership`]).

mod announce;
pub mod handle;
mod order;
pub mod refused;
pub mod seal;
pub mod socket;
#[cfg(test)]
mod tests;

pub use handle::{GossipHandle, gossip};
