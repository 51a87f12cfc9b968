//! What the operator decides of prefetch. It decides nothing itself.

/// What the operator decides of prefetch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrefetchPolicy {
    /// Whether anything is observed, learned or launched.
    pub is_on: bool,
    /// Candidates launched for one request at the most.
    pub queries_max: u32,
    /// Node ids of a result that are expanded.
    pub depth: u32,
    /// Patterns whose successors are learned.
    pub patterns_max: u32,
    /// Whether nodes tell each other what they have learned.
    pub is_gossiped: bool,
    /// Where candidates come from.
    pub kinds: Kinds,
}

/// Kinds of candidates that are in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "a set of four words")]
pub struct Kinds {
    /// Queries seen before, with their parameters.
    pub exact: bool,
    /// Queries seen before, their parameters bound anew.
    pub template: bool,
    /// The query at hand for the nodes in its result.
    pub neighbour: bool,
    /// Entries of the same anchor that are about to expire.
    pub overlap: bool,
}

impl Kinds {
    /// All of them.
    pub const ALL: Self = Self { exact: true, template: true, neighbour: true, overlap: true };
}

impl PrefetchPolicy {
    /// Nothing is observed, learned or launched.
    pub const OFF: Self = Self {
        is_on: false,
        queries_max: 4,
        depth: 1,
        patterns_max: 256,
        is_gossiped: true,
        kinds: Kinds::ALL,
    };

    /// As a node has it that was not told otherwise (INTERFACE `[prefetch]`).
    pub const DEFAULT: Self = Self { is_on: true, ..Self::OFF };
}
