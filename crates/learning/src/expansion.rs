//! Neighbours of a query: the same statement for the graph nodes in its result.
//!
//! Certain or none: it uses only ids of nodes with the label and property of the statement's anchor, or of columns that
//! the text itself shows to be that property of a variable with that label. Never without a label, and never any
//! integer. It decides which queries these are, not whether one is worth a run.

use hopcache_core::cypher::anchor::Anchor;
use hopcache_core::cypher::columns::columns_of;

use crate::fields::{Field, Fields};
use crate::params::{Kind, Params};

/// A neighbour's query: the same statement with other parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Neighbour {
    /// One canonical PackStream map.
    pub params: Vec<u8>,
    /// The row of the result with its id.
    pub row: u8,
}

/// The same statement for the first `depth` other node ids in its result, row by row, from left to right.
///
/// None if the statement does not start at a labelled node by a parameter that is an integer or a text.
#[must_use]
pub fn neighbours(statement: &str, params: &[u8], fields: &Fields, depth: usize) -> Vec<Neighbour> {
    let (Some((anchor, param)), Some(params)) = (Anchor::with_param(statement, params), Params::read(params))
    else {
        return Vec::new();
    };
    let kind = Kind::of(&anchor.value);
    if !matches!(kind, Some(Kind::Int | Kind::Text)) {
        return Vec::new();
    }
    let columns = columns_of(statement, anchor.label.as_str(), anchor.key.as_str());
    let mut ids: Vec<&[u8]> = vec![&anchor.value];
    let mut found = Vec::new();
    for field in fields.scalars() {
        if found.len() >= depth {
            break;
        }
        let is_shown = field.path.is_empty() && columns.iter().any(|column| *column == *field.column);
        let is_id = is_shown || is_property_of(&field, &anchor, fields);
        if is_id && Kind::of(field.value) == kind && !ids.contains(&field.value) {
            ids.push(field.value);
            found.push(Neighbour { params: params.with(&param, field.value), row: field.row });
        }
    }
    found
}

/// Whether the field is the anchor's property of a node that has its label.
fn is_property_of(field: &Field<'_>, anchor: &Anchor, fields: &Fields) -> bool {
    let Some((key, path)) = field.path.split_last() else { return false };
    **key == *anchor.key.as_str()
        && fields.nodes().any(|node| {
            let is_there = (node.row, node.column_at, node.path) == (field.row, field.column_at, path);
            is_there && node.labels.iter().any(|label| **label == *anchor.label.as_str())
        })
}
