//! TLS of listeners: turns an accepted socket into a stream, plain or encrypted.
//!
//! A listener needs an [`Acceptor`]: [`Acceptor::accept`] for each socket. [`WatchedFiles::follow`], in a task of its own,
//! reads certificate and key again when their files change. The listener owns the protocol above (HTTP, Bolt). This
//! module never answers a client and never looks into a stream.

mod acceptor;
mod current;
mod files;
mod handshakes;
mod reload;
#[cfg(test)]
mod tests;

pub use acceptor::{Acceptor, Completed, HandshakeError, ListenerStream, has_client_certificate};
pub use files::{Authorities, TlsFileError, TlsFiles};
pub use handshakes::Handshakes;
pub use reload::{Reload, WatchedFiles};

/// The protocols that the HTTP listeners offer in ALPN. They speak no other protocol, with or without TLS.
pub const ALPN_HTTP: &[&[u8]] = &[b"http/1.1"];
/// The Bolt listener offers nothing, since drivers ask for nothing: Bolt has a handshake of its own inside.
pub const ALPN_BOLT: &[&[u8]] = &[];
