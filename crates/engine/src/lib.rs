//! The request path of a hopcache node, over ports.
//!
//! The engine decides with `hopcache-core` and acts through [`ports`]: clock, dice, store, origin,
//! peers, membership, memory. It opens no socket, reads no clock of its own and draws no random number of its
//! own, so the same engine runs in production and in the deterministic simulator.

pub mod identity;
pub mod ports;
