//! One hop: how a node asks another node, and how both prove that they hold the cluster key.
//!
//! | module | decides |
//! |---|---|
//! | [`keys`] | the cluster's key, and the second one of a rotation |
//! | [`auth`] | the parts of a message that a proof covers, sealing and opening |
//! | [`sessions`] | which messages were seen before (replay), in bounded memory |
//! | [`link`] | one exchange with one address: its way, retry, mapping of failures |
//! | [`frames`] | frames, their seals and their order |
//! | `framed_peer`, `framed` | the framed connection to a peer: its opening and task, and its exchanges |
//! | `framed_server` | its answering end |
//! | `connections` | addresses of peers, and kept HTTP connections, driven by their users |
//! | [`client`] | the engine's `Peers` port: names to addresses, failures to membership |
//! | [`server`] | the peer listener's paths |
//!
//! The engine decides what a message means, which node owns a key, and whether to try another node.

pub mod auth;
pub mod client;
mod connections;
mod framed;
mod framed_peer;
mod framed_server;
pub mod frames;
pub mod keys;
pub mod link;
pub mod server;
pub mod sessions;

#[cfg(test)]
pub(crate) mod tests;

/// Paths of the peer listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PeerPath {
    /// `GET`: asks for the node's identity, and opens a session.
    Probe,
    /// `POST`: a sealed message of any kind.
    Ask,
}

impl PeerPath {
    /// The path on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Probe => "/peer/v1/probe",
            Self::Ask => "/peer/v1/ask",
        }
    }

    /// Its only method.
    #[must_use]
    pub const fn method(self) -> &'static str {
        match self {
            Self::Probe => "GET",
            Self::Ask => "POST",
        }
    }
}
