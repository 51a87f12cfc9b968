//! Degrees of the graph nodes that queries start from: what is asked about them, and who said what.

use std::sync::Arc;

use hopcache_core::cypher::anchor::Anchor;
use hopcache_core::key::AnchorTag;

use crate::model::identity::Identity;

/// A question about a degree. It keeps no more of a query than it takes to ask: parameters may be megabytes.
#[derive(Debug, Clone)]
pub struct DegreeQuestion {
    /// The graph node, as this principal sees it.
    pub tag: AnchorTag,
    /// Its label and key, whoever asks.
    pub property: AnchorTag,
    /// The graph node in Cypher's words.
    pub anchor: Anchor,
    /// As whom.
    pub identity: Arc<Identity>,
    /// User to act as, if another.
    pub impersonated: Option<String>,
    /// Database name as the client gave it.
    pub database: Arc<str>,
}

/// What is known of a degree, and from whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Degree {
    /// Relationships of the graph node; nothing where nobody knows, which counts as one.
    pub value: Option<u64>,
    /// Who said so.
    pub source: DegreeSource,
}

/// Who said a degree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DegreeSource {
    /// The caller.
    Hint,
    /// The server, asked in the background.
    Learned,
    /// Nobody.
    Unknown,
}
