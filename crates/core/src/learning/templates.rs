//! What one step of a session teaches: where the parameters of the next query may have come from.
//!
//! Pure and bounded. It decides which forms one step supports, never how often a step was seen or how likely it is.

use super::fields::Fields;
use super::form::Form;

/// A query that came before the next one.
#[derive(Debug, Clone, Copy)]
pub struct QuerySeen<'a> {
    /// Its statement, in normal form.
    pub statement: &'a str,
    /// Its parameters: one canonical PackStream map.
    pub params: &'a [u8],
    /// Its result's fields, where they are known.
    pub fields: Option<&'a Fields>,
}

/// What a step teaches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Learned {
    /// Which of the queries before it is learned of.
    pub before: usize,
    /// The forms that it supports, the likeliest first; at most [`crate::limits::TEMPLATES_PER_STEP_MAX`].
    pub forms: Vec<Form>,
}

/// The templates by which `statement` with `params` follows one of the queries `before` it, nearest first.
#[must_use]
pub fn templates_of(_before: &[QuerySeen<'_>], _statement: &str, _params: &[u8]) -> Option<Learned> {
    None
}
