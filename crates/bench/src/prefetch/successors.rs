//! Reads the answer of `GET /admin/v1/successors`: the only file that knows its form.

use serde_json::Value;

/// The path that asks for the patterns that have this word.
pub(super) fn path(word: &str) -> String {
    format!("/admin/v1/successors?pattern={word}")
}

/// How many successors a node knows, of any pattern; 0 where the answer has no count.
pub(super) fn forms_known(answer: &Value) -> u64 {
    answer["forms_known"].as_u64().unwrap_or(0)
}
