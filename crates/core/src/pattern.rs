//! The id of a statement's pattern. Core keeps run times by it, and reads no text: `hopcache_cypher::forms::pattern` makes the id.

/// The hash of a pattern: a statement's tokens without literals and parameters. It is the same on every platform. It never
/// decides what may be cached or shared: 64 unkeyed bits may collide.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct PatternId(pub u64);
