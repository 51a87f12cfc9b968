//! What each listener of a node needs: accepting connections, TLS, the time that a connection may take, and bodies within a bound.

mod accepting;
pub mod body;
pub mod body_budget;
pub mod client_addr;
pub mod connection_slots;
pub mod connection_timeouts;
pub mod crowding;
pub mod descriptors;
pub mod listener;
pub mod proxies;
pub mod proxy_protocol;
pub mod refusal_response;
pub mod tls;
pub mod upgrade;
