//! Bolt, both sides: a thin Bolt 5 client ([`Connection`]), a connection that passes a client's own messages on
//! ([`Relay`]), and the server's side without sockets ([`server`]).
//!
//! It decides how a connection is opened, how one auto-commit statement is run to its end, and when a connection may be
//! used again. Column names keep their order, and every RECORD keeps the bytes that the server sent. This crate never
//! decodes a record into values, never retries and never routes. It has no pool and no cache, and knows nothing of the
//! rest of hopcache.
//!
//! Two rules that callers rely on:
//! - A result is complete or it is an error: only the SUCCESS at the end of the last PULL makes a
//!   [`WholeResult`] (promise I10).
//! - A connection with an unfinished exchange (dropped future, deadline, broken stream, hostile bytes) is not
//!   [`Connection::is_ready`] and refuses to run anything again.
//!
//! Messages leave by the chunk writer of `boltr`. Messages are read and written with `hopcache-packstream` and not
//! with the codec of `boltr`, which decodes records eagerly, keeps maps in hash order, and would decode and encode
//! parameters that are PackStream already.
//!
//! Sources: Neo4j's Bolt Protocol documentation ("Handshake", "Message specification", versions 4.1 to 5.8), and
//! recordings of a real 5.26.

mod address;
mod auth;
mod connection;
mod copying;
mod error;
mod exchange;
mod framing;
mod message;
mod open_result;
mod pull_size;
mod records;
mod relay;
mod relay_exchange;
pub mod request_bytes;
mod roots;
mod route;
mod run;
pub mod server;
mod statuses;
mod transport;
mod watched_stream;

pub use address::{Address, AddressError, Security};
pub use auth::Auth;
pub use connection::{Connection, Options};
pub use error::{Failure, OpenError, RunError, RunFault};
pub use message::failure_code;
pub use open_result::Piece;
pub use records::{RECORD_BYTES_MAX, RECORD_BYTES_UNRESERVED};
pub use relay::{Dialect, Interrupted, Relay, RelayCut, RelayOptions, ServerInfo, metadata};
pub use roots::Roots;
pub use route::RoutingTable;
pub use run::{ClosingStatement, Left, Mode, RecordPlace, RecordTap, ResultEnd, Room, Run, WholeResult};
pub use watched_stream::SignsOfLife;

#[cfg(test)]
extern crate self as hopcache_bolt;
#[cfg(test)]
#[path = "../tests/main.rs"]
mod tests;
