//! The query key: what decides whether two requests may share an answer (promise I5).

use std::fmt;

/// Keyed 256-bit digest of database, principal scope, normal form and canonical parameters.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueryKey(pub [u8; 32]);

/// Keyed 256-bit digest of who asks: scheme, user, impersonated user. Never of a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PrincipalScope(pub [u8; 32]);

/// Keyed 64-bit digest of a database name, for entry tags and store key names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DatabaseTag(pub u64);

impl QueryKey {
    /// 64 hexadecimal digits.
    #[must_use]
    pub fn to_hex(&self) -> String {
        blake3::Hash::from_bytes(self.0).to_hex().to_string()
    }

    /// Reads 64 hexadecimal digits.
    #[must_use]
    pub fn from_hex(text: &str) -> Option<Self> {
        blake3::Hash::from_hex(text).ok().map(|hash| Self(*hash.as_bytes()))
    }
}

impl fmt::Debug for QueryKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "QueryKey({}…)", &self.to_hex()[..12])
    }
}
