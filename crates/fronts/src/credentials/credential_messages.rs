//! The messages of nodes about credentials: bytes in, bytes out. The session between peers makes them secret and
//! authentic (`peer::auth`). They have keyed digests and ages, never credentials. They have no time of day, because
//! clocks differ.
//!
//! ```text
//! asked     version, 64, digest                              → 0 | 1, age of the acceptance | 2, age of the refusal
//! refused   version, 65, (digest, age of the refusal) × n    → nothing
//! home      version, 68, digest, impersonated user or nothing → nothing | age of Neo4j's answer, the home database
//! ```
//!
//! A node of a release before these messages refuses them, and counts as a node without an answer.

use bytes::Bytes;
use hopcache_core::limits::{HOME_NAME_BYTES_MAX, REFUSALS_TOLD_AT_ONCE};
use hopcache_core::time::Millis;
use hopcache_engine::message::{KIND_OF_FRONTS_MIN, VERSION};

/// Keyed digest of the whole credentials.
pub type Fingerprint = [u8; 32];

const KIND_ASKED: u8 = KIND_OF_FRONTS_MIN;
const KIND_REFUSED: u8 = KIND_OF_FRONTS_MIN + 1;
const KIND_HOME: u8 = KIND_OF_FRONTS_MIN + 4;

/// A node's cached result about credentials.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CredentialAnswer {
    /// No result is cached.
    Unknown,
    /// Neo4j accepted them this long ago.
    Accepted(Millis),
    /// Neo4j refused them this long ago, and has not accepted them since.
    Refused(Millis),
}

/// What Neo4j has told a node of a home database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownHome {
    /// The age of Neo4j's answer.
    pub age_ms: Millis,
    /// The database.
    pub name: String,
}

impl KnownHome {
    /// Its bytes.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        [&self.age_ms.0.to_be_bytes()[..], self.name.as_bytes()].concat().into()
    }

    /// Reads an answer. An empty or unreadable one is none.
    #[must_use]
    pub fn decode(answer: &[u8]) -> Option<Self> {
        let (age_ms, name) = answer.split_first_chunk()?;
        let name = name_of(name).filter(|name| !name.is_empty())?;
        Some(Self { age_ms: Millis(u64::from_be_bytes(*age_ms)), name })
    }
}

fn name_of(bytes: &[u8]) -> Option<String> {
    let is_short = bytes.len() <= HOME_NAME_BYTES_MAX;
    is_short.then(|| String::from_utf8(bytes.to_vec()).ok())?
}

/// A message about credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CredentialMessage {
    /// Asks for the result that the receiver has cached.
    Asked(Fingerprint),
    /// Neo4j refused these credentials at the sender, each this long ago.
    Refused(Vec<(Fingerprint, Millis)>),
    /// Asks for what Neo4j has told the receiver of the home database of these credentials, as this user if there is a name.
    Home(Fingerprint, Option<String>),
}

impl CredentialMessage {
    /// Its bytes.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        let mut bytes = vec![VERSION];
        match self {
            Self::Asked(whose) => {
                bytes.push(KIND_ASKED);
                bytes.extend_from_slice(whose);
            }
            Self::Refused(refused) => {
                bytes.push(KIND_REFUSED);
                for (whose, age_ms) in refused.iter().take(REFUSALS_TOLD_AT_ONCE) {
                    bytes.extend_from_slice(whose);
                    bytes.extend_from_slice(&age_ms.0.to_be_bytes());
                }
            }
            Self::Home(whose, impersonated) => {
                bytes.push(KIND_HOME);
                bytes.extend_from_slice(whose);
                bytes.extend_from_slice(impersonated.as_deref().unwrap_or_default().as_bytes());
            }
        }
        bytes.into()
    }

    /// Reads a message about credentials. `None` for every other message.
    #[must_use]
    pub fn decode(message: &[u8]) -> Option<Self> {
        let rest = message.strip_prefix(&[VERSION])?;
        if let Some(whose) = rest.strip_prefix(&[KIND_ASKED]) {
            return Some(Self::Asked(whose.try_into().ok()?));
        }
        if let Some(home) = rest.strip_prefix(&[KIND_HOME]) {
            let (whose, name) = home.split_first_chunk()?;
            let name = name_of(name)?;
            return Some(Self::Home(*whose, (!name.is_empty()).then_some(name)));
        }
        let (refused, left_over) = rest.strip_prefix(&[KIND_REFUSED])?.as_chunks::<40>();
        if !left_over.is_empty() || refused.len() > REFUSALS_TOLD_AT_ONCE {
            return None;
        }
        let one = |bytes: &[u8; 40]| {
            let (whose, age_ms) = bytes.split_first_chunk::<32>()?;
            Some((*whose, Millis(u64::from_be_bytes(age_ms.try_into().ok()?))))
        };
        refused.iter().map(one).collect::<Option<Vec<_>>>().map(Self::Refused)
    }
}

impl CredentialAnswer {
    /// Its bytes.
    #[must_use]
    pub fn encode(self) -> Bytes {
        let (kind, age_ms) = match self {
            Self::Unknown => return Bytes::from_static(&[0]),
            Self::Accepted(age_ms) => (1, age_ms),
            Self::Refused(age_ms) => (2, age_ms),
        };
        [&[kind][..], &age_ms.0.to_be_bytes()].concat().into()
    }

    /// Reads an answer. An unreadable answer counts as [`CredentialAnswer::Unknown`].
    #[must_use]
    pub fn decode(answer: &[u8]) -> Self {
        let Some((kind, age_ms)) = answer.split_first() else { return Self::Unknown };
        let age_ms = age_ms.try_into().map(|age_ms| Millis(u64::from_be_bytes(age_ms)));
        match (kind, age_ms) {
            (1, Ok(age_ms)) => Self::Accepted(age_ms),
            (2, Ok(age_ms)) => Self::Refused(age_ms),
            _ => Self::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(whose in any::<[u8; 32]>(), age in any::<u64>(), count in 0..=REFUSALS_TOLD_AT_ONCE) {
            for message in [CredentialMessage::Asked(whose), CredentialMessage::Refused(vec![(whose, Millis(age)); count])] {
                prop_assert_eq!(CredentialMessage::decode(&message.encode()), Some(message));
            }
            for answer in [CredentialAnswer::Unknown, CredentialAnswer::Accepted(Millis(age)), CredentialAnswer::Refused(Millis(age))] {
                prop_assert_eq!(CredentialAnswer::decode(&answer.encode()), answer);
            }
        }

        #[test]
        fn a_home_that_is_written_is_read(whose in any::<[u8; 32]>(), age in any::<u64>(), name in "[a-zé]{1,60}") {
            for user in [None, Some(name.clone())] {
                let message = CredentialMessage::Home(whose, user);
                prop_assert_eq!(CredentialMessage::decode(&message.encode()), Some(message));
            }
            let home = KnownHome { age_ms: Millis(age), name };
            prop_assert_eq!(KnownHome::decode(&home.encode()), Some(home));
            prop_assert_eq!(KnownHome::decode(b""), None, "the answer of a node that knows none");
        }

        /// I13: any bytes are read or refused, and a message that is read is bounded (I9).
        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..4_000), kind in 0_u8..6) {
            let message = [&[VERSION, KIND_OF_FRONTS_MIN + kind][..], &bytes].concat();
            for message in [&bytes, &message] {
                if let Some(CredentialMessage::Refused(refused)) = CredentialMessage::decode(message) {
                    prop_assert!(refused.len() <= REFUSALS_TOLD_AT_ONCE);
                }
            }
            let _ = CredentialAnswer::decode(&bytes);
            prop_assert!(KnownHome::decode(&bytes).is_none_or(|home| home.name.len() <= HOME_NAME_BYTES_MAX));
        }
    }
}
