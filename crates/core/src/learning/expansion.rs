//! Neighbours of a query: the same statement for the graph nodes in its result.
//!
//! Sure or nothing: only ids of nodes that carry the label and property the statement is anchored at, or of columns
//! that the text itself shows to be that property of a variable with that label. Never without a label, and never
//! any integer. It decides which queries these are, not whether one is worth a run.

use super::fields::Fields;

/// A neighbour's query: the same statement with other parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Neighbour {
    /// One canonical PackStream map.
    pub params: Vec<u8>,
    /// Row of the result that has its id.
    pub row: u8,
}

/// The same statement for the first `depth` other node ids in its result.
#[must_use]
pub fn neighbours(_statement: &str, _params: &[u8], _fields: &Fields, _depth: usize) -> Vec<Neighbour> {
    Vec::new()
}
