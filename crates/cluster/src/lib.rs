//! The other nodes of the cluster: the peer link, gossip, the members, and the routing of keys to their owners.

pub mod gossip;
pub mod joining;
pub mod membership;
pub mod peer;
pub mod replay_window;
pub mod routing;
