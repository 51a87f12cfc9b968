//! Which credentials Neo4j has accepted. All fronts of a node share this room.
//!
//! | file | decides |
//! |---|---|
//! | `check` | when Neo4j is asked about credentials, and what its answer means for the next requests |
//! | `credential_cache` | until when credentials count as accepted or as refused |
//! | `lockout_guard` | how often Neo4j is asked about credentials that it never accepted, for each user |
//! | `peer_answers` | what the other nodes' answers about credentials mean while Neo4j cannot be asked |
//! | `credential_messages` | the bytes of these answers |
//!
//! This room knows no protocol of clients. It reads no header, and it writes no response: a front makes the
//! [`Identity`](hopcache_engine::identity::Identity), and a front chooses the code and message of a refusal. It
//! imports nothing from `crate::front`, `http`, `axum` or `hopcache_queryapi`. It runs no statement, and it keeps no
//! credentials after their check.

mod check;
mod credential_cache;
pub mod credential_messages;
mod lockout_guard;
pub mod peer_answers;

pub use check::{Credentials, Standing};
pub use credential_cache::Acceptance;
#[cfg(test)]
pub(crate) use credential_cache::CredentialCache;
pub use credential_messages::Fingerprint;
