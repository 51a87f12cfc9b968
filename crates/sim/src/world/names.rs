//! Names and addresses of simulated nodes: each is a function of the node's number.

use std::net::{Ipv4Addr, SocketAddr};

use hopcache_core::node::NodeName;

/// Bound of names in a world. A node that has left never comes again.
pub const NAMES_MAX: usize = 10;

/// The name of a node.
#[must_use]
pub fn node_name(node: usize) -> Option<NodeName> {
    NodeName::new(&format!("sim-{node}")).ok()
}

/// The peer address of a node.
pub(crate) fn addr_of(node: usize) -> SocketAddr {
    let last = u8::try_from(node + 1).unwrap_or(u8::MAX);
    SocketAddr::from((Ipv4Addr::new(10, 0, 0, last), 1))
}

/// The node at an address.
pub(crate) fn node_at(addr: SocketAddr) -> Option<usize> {
    (0..NAMES_MAX.max(64)).find(|node| addr_of(*node) == addr)
}
