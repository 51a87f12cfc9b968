//! The node's side of gossip: one UDP socket on the peer port, sealed datagrams, and the reports of other nodes.
//!
//! | module | decides |
//! |---|---|
//! | [`seal`] | which datagrams are accepted |
//! | [`refused`] | how refused datagrams are counted and logged |
//! | [`socket`] | in which order datagrams, timers and orders are handled |
//! | `announce` | to which addresses this node announces itself, and when |
//! | [`handle`], `order` | the orders that the rest of the node may give |
//!
//! The crate `hopcache-gossip` decides the content of gossip. [`crate::membership`] decides which nodes are routed
//! to.

mod announce;
pub mod handle;
mod order;
pub mod refused;
pub mod seal;
pub mod socket;
#[cfg(test)]
mod tests;

pub use handle::{GossipHandle, gossip};
