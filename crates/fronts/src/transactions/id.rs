//! The name of a transaction that a node holds: the life of that node, and a secret. Any node finds the holder by it.
//! A node that starts again has another life, so a name of before its start names no node.

use std::fmt;

use hopcache_core::node::Incarnation;

/// Hexadecimal digits of the life.
const LIFE_DIGITS: usize = 16;
/// Hexadecimal digits of the secret.
const SECRET_DIGITS: usize = 32;

/// The part of a name that cannot be guessed.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Secret(pub(crate) [u8; 16]);

/// A transaction's name.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct TransactionId {
    /// The life of the node that holds it.
    pub(crate) holder: Incarnation,
    pub(crate) secret: Secret,
}

impl TransactionId {
    /// Reads a name. `None` for any text that no node has made.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if text.len() != LIFE_DIGITS + SECRET_DIGITS || !text.bytes().all(is_digit) {
            return None;
        }
        let (life, secret) = text.split_at(LIFE_DIGITS);
        Some(Self {
            holder: Incarnation(u64::from_str_radix(life, 16).ok()?),
            secret: Secret(u128::from_str_radix(secret, 16).ok()?.to_be_bytes()),
        })
    }
}

impl fmt::Display for TransactionId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:016x}{:032x}", self.holder.0, u128::from_be_bytes(self.secret.0))
    }
}

/// A log line must not open a transaction to its readers.
impl fmt::Debug for TransactionId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "TransactionId({:016x}…)", self.holder.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_name_is_read_as_it_was_written(life in any::<u64>(), secret in any::<[u8; 16]>()) {
            let id = TransactionId { holder: Incarnation(life), secret: Secret(secret) };
            prop_assert_eq!(TransactionId::parse(&id.to_string()), Some(id));
            let (shown, whole) = (format!("{id:?}"), id.to_string());
            prop_assert!(!shown.contains(&whole[LIFE_DIGITS..]));
        }

        /// I13: a path may hold any text.
        #[test]
        fn any_text_is_read_or_refused(text in "\\PC{0,60}", digits in "[0-9a-fA-F+]{46,50}") {
            for text in [&text, &digits] {
                if let Some(id) = TransactionId::parse(text) {
                    prop_assert_eq!(&id.to_string(), text);
                }
            }
        }
    }
}
