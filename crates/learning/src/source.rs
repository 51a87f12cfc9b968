//! Names in lessons: keyed 64-bit digests, the same on every node of a cluster.
//!
//! Decides the input of each digest. A pattern's and a query's include the database and the asking principal, so that
//! one principal's lessons are never found by another (I5). Never turns a digest back into a text.

use hopcache_core::key::{KeyHasher, PrincipalScope, QueryKey};
use hopcache_core::node::NodeName;
use hopcache_core::wire::fixed;

/// A pattern in a database, as a principal asks it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct PatternTag(#[serde(with = "fixed")] pub u64);

/// One exact query: text, parameters, database and principal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct QueryTag(#[serde(with = "fixed")] pub u64);

/// A runnable next query, by the bytes that define it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct FormId(#[serde(with = "fixed")] pub u64);

/// A node, by the digest of its name: it identifies slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct OriginTag(#[serde(with = "fixed")] pub u64);

/// The earlier query.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub enum SourceId {
    /// A pattern: the source of templates.
    Pattern(PatternTag),
    /// An exact query: the source of exact successors.
    Query(QueryTag),
}

impl SourceId {
    /// Behind all others, or the last one.
    pub(super) const LAST: Self = Self::Query(QueryTag(u64::MAX));
}

impl PatternTag {
    /// The tag of a pattern's text.
    #[must_use]
    pub fn of(hasher: &KeyHasher, database: &str, scope: PrincipalScope, pattern: &str) -> Self {
        Self(hasher.scoped_learning_tag(b"pattern", database, scope, pattern.as_bytes()))
    }
}

impl QueryTag {
    /// The tag of a query; its key has database, principal, text and parameters in it.
    #[must_use]
    pub fn of(hasher: &KeyHasher, key: &QueryKey) -> Self {
        Self(hasher.learning_tag(b"query", [&key.0, b"", b""]))
    }
}

impl FormId {
    /// Stands for any successor: its row counts how often its source was seen.
    pub const ANY: Self = Self(0);

    /// The id of the form that `definition` defines. A definition includes database and principal.
    #[must_use]
    pub fn of(hasher: &KeyHasher, definition: &[u8]) -> Self {
        Self(hasher.learning_tag(b"form", [definition, b"", b""]).max(1))
    }
}

impl OriginTag {
    /// The tag of a node's name.
    #[must_use]
    pub fn of(hasher: &KeyHasher, node: &NodeName) -> Self {
        Self(hasher.learning_tag(b"origin", [node.as_str().as_bytes(), b"", b""]))
    }
}

impl SourceId {
    /// Whether it is a pattern.
    #[must_use]
    pub const fn is_pattern(self) -> bool {
        matches!(self, Self::Pattern(_))
    }

    /// Its digest, of either kind.
    #[must_use]
    pub const fn tag(self) -> u64 {
        match self {
            Self::Pattern(PatternTag(tag)) | Self::Query(QueryTag(tag)) => tag,
        }
    }
}

impl From<PatternTag> for SourceId {
    fn from(tag: PatternTag) -> Self {
        Self::Pattern(tag)
    }
}

impl From<QueryTag> for SourceId {
    fn from(tag: QueryTag) -> Self {
        Self::Query(tag)
    }
}
