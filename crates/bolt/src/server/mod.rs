//! The server's side of Bolt, without sockets and without a clock: bytes in, requests out; replies in, bytes out.
//!
//! | file | decides |
//! |---|---|
//! | `handshake` | which version a client and this server speak |
//! | `chunks` | where a message ends, and how large it may be |
//! | `inbox` | handshake and chunks of one connection, in order; whether a RESET waits |
//! | `request` | the request that a message holds, or why it is malformed |
//! | `state` | which request is allowed in which state, and which state follows (a table) |
//! | `old_values` | the form that values have for clients of versions before 6.1 |
//! | `reply` | the bytes of SUCCESS, RECORD, IGNORED and FAILURE |
//!
//! Nothing here runs a statement, knows a user or waits. A caller owns the socket and the deadlines.
//!
//! Sources: Neo4j's Bolt Protocol documentation ("Handshake", "Message specification", "Server state specification",
//! versions 4.1 to 5.8), and the answers of a real 5.26, and of 2026.09 for Bolt 6, where the documentation is silent.

mod chunks;
mod handshake;
mod inbox;
pub mod old_values;
pub mod reply;
mod request;
mod state;

pub use chunks::{Chunks, TooLarge, frame, frame_parts};
pub use handshake::{Agreement, Handshake, HandshakeRefusal, Version};
pub use inbox::{Inbox, InboxBounds, InboxFault};
pub use request::{BadRequest, ExtraBytes, Kind, OPTIONS_BYTES_MAX, ReceivedMessage, Request, Take};
pub use state::{Admission, Ending, Machine, State};
