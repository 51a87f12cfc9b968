//! The questions that fronts of different nodes ask each other: bytes in, bytes out. The session between peers makes them secret
//! and authentic (`peer::auth`).
//!
//! Those about credentials have keyed digests and ages, never credentials, and no time of day, because clocks differ. A request
//! about a transaction has its client's credentials, as forwarded queries have.

use bytes::Bytes;
use hopcache_core::limits::REFUSALS_TOLD_AT_ONCE;
use hopcache_core::time::Millis;
use hopcache_core::wire::{WIRE_VERSION, append, at_most, from_bytes};
use hopcache_engine::message::KIND_OF_FRONTS;
use serde::{Deserialize, Serialize};

use crate::credentials::Fingerprint;
use crate::front::transactions::messages::SentRequest;

/// A question of another node's front.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum FrontQuestion<'a> {
    /// Asks for the result about these credentials that the receiver has cached. The answer is a
    /// [`CredentialAnswer`](crate::credentials::credential_messages::CredentialAnswer).
    Credentials(Fingerprint),
    /// Neo4j refused these credentials at the sender, each this long ago. The answer is empty.
    Refused(#[serde(deserialize_with = "at_most::<_, _, REFUSALS_TOLD_AT_ONCE>")] Vec<(Fingerprint, Millis)>),
    /// Asks for what Neo4j has told the receiver of the home database of these credentials, as this user if there is a name. The
    /// answer is a [`KnownHome`](crate::credentials::credential_messages::KnownHome) or none.
    Home(Fingerprint, Option<&'a str>),
    /// A client's request, for the node that holds its transaction. The answer is
    /// [`TransactionResponse`](crate::front::transactions::Handled).
    Transaction(#[serde(borrow)] SentRequest<'a>),
    /// Asks for the node's part of a console's snapshot. The answer is JSON.
    ConsolePart,
}

impl<'a> FrontQuestion<'a> {
    /// Its bytes.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        let body_bytes = if let Self::Transaction(request) = self { request.body.0.len() } else { 0 };
        let mut bytes = Vec::with_capacity(512 + body_bytes);
        bytes.extend_from_slice(&[WIRE_VERSION, KIND_OF_FRONTS]);
        append(bytes, self).into()
    }

    /// Reads a question of a front. `None` for every other message.
    #[must_use]
    pub fn decode(message: &'a [u8]) -> Option<Self> {
        from_bytes(message.strip_prefix(&[WIRE_VERSION, KIND_OF_FRONTS])?).ok()
    }
}
