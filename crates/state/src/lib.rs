//! What both kinds of listener of a node read of it: its state, the copies in its memory, the audit of what its users do, and
//! the check of the hosts that requests name.

pub mod audit;
pub mod hints;
pub mod host_check;
pub mod memory;
pub mod node_state;
pub mod reload;
pub mod troubles;
