//! Degrees of the graph nodes that queries start from: questions about them, and the sources of answers.

use std::sync::Arc;

use hopcache_core::key::AnchorTag;
use hopcache_cypher::anchor::Anchor;

use crate::model::identity::Identity;

/// A question about a degree. It keeps only as much of a query as the question needs, because parameters may be
/// megabytes.
#[derive(Debug, Clone)]
pub struct DegreeQuestion {
    /// The graph node, as this principal sees it.
    pub tag: AnchorTag,
    /// Its label and key, for all principals.
    pub property: AnchorTag,
    /// The graph node as a Cypher pattern.
    pub anchor: Anchor,
    /// The asking identity.
    pub identity: Arc<Identity>,
    /// User to act as, if it is another one.
    pub impersonated: Option<String>,
    /// Database name as the client gave it.
    pub database: Arc<str>,
}

/// A degree as far as it is known, and its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Degree {
    /// Relationships of the graph node; `None` if unknown, which counts as one.
    pub value: Option<u64>,
    /// The source of the value.
    pub source: DegreeSource,
}

/// The source of a degree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DegreeSource {
    /// The caller's hint.
    Hint,
    /// The server, asked in the background.
    Learned,
    /// None: the degree is unknown.
    Unknown,
}
