//! The answers of nodes about credentials (`front_question`): keyed digests and ages, never credentials.

use bytes::Bytes;
use hopcache_core::limits::HOME_NAME_BYTES_MAX;
use hopcache_core::time::Millis;
use hopcache_engine::message::{decode_answer, encode_answer};
use serde::{Deserialize, Serialize};

/// Keyed digest of the whole credentials.
pub type Fingerprint = [u8; 32];

/// A node's cached result about credentials.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum CredentialAnswer {
    /// No result is cached.
    Unknown,
    /// Neo4j accepted them this long ago.
    Accepted(Millis),
    /// Neo4j refused them this long ago, and has not accepted them since.
    Refused(Millis),
}

impl CredentialAnswer {
    /// Reads an answer. An unreadable answer counts as [`CredentialAnswer::Unknown`].
    #[must_use]
    pub fn decode(answer: &Bytes) -> Self {
        decode_answer(answer).unwrap_or(Self::Unknown)
    }
}

/// What Neo4j has told a node of a home database.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownHome {
    /// The age of Neo4j's answer.
    pub age_ms: Millis,
    /// The database.
    pub name: String,
}

impl KnownHome {
    /// Its bytes, or those of none.
    #[must_use]
    pub fn encode(home: Option<&Self>) -> Bytes {
        encode_answer(&home)
    }

    /// Reads an answer. An empty or unreadable one is none.
    #[must_use]
    pub fn decode(answer: &Bytes) -> Option<Self> {
        let home: Option<Self> = decode_answer(answer).ok()?;
        home.filter(|home| (1..=HOME_NAME_BYTES_MAX).contains(&home.name.len()))
    }
}
