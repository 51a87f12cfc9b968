//! The node's side of gossip.
//!
//! | module | decides |
//! |---|---|
//! | [`seal`] | which datagrams are believed |
//! | [`refused`] | how those that are not are counted and said |
//!
//! Never here: what gossip says (crate `hopcache-gossip`), and who is routed to ([`crate::membership`]).

pub mod refused;
pub mod seal;
#[cfg(test)]
mod tests;
