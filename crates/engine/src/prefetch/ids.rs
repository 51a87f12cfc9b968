//! Names of what is learned. They stand here until the model's own (`core/learning/source.rs`) are there.

/// One pattern in a database, as one principal asks it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PatternTag(pub u64);

/// One exact query.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueryTag(pub u64);

/// A runnable next query, by the bytes that define it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FormId(pub u64);

/// What was asked before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SourceId {
    /// A pattern: the source of templates.
    Pattern(PatternTag),
    /// An exact query: the source of exact successors.
    Query(QueryTag),
}
