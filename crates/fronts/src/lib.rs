//! How clients reach the cache: over HTTP ([`front`]) and over Bolt ([`bolt_front`]), with the same credentials, principals,
//! keys and transactions.

pub mod bolt_front;
mod client_name;
pub mod credentials;
pub mod databases;
pub(crate) mod discovery;
pub mod front;
pub mod front_question;
pub mod neo4j_server;
pub mod parse_turns;
pub mod peer_credentials;
pub mod renderer;
pub mod senders;
pub mod transactions;
