//! The data in a request's outcome: the version of the item that its answer holds.
#![allow(clippy::panic, reason = "test code")]

use hopcache_engine::outcome::{Answer, Outcome};

/// The version of the item in the answer's body; `None` without a body or a version.
pub(crate) fn version_in(outcome: &Outcome) -> Option<i64> {
    let Answer::Body(body) = &outcome.answer else { return None };
    let text = String::from_utf8_lossy(body);
    text.split("[[").nth(1)?.split(',').next()?.parse().ok()
}

/// The version, where the answer must hold one.
pub(crate) fn version(outcome: &Outcome) -> i64 {
    version_in(outcome).unwrap_or_else(|| panic!("no version in the answer: {:?}", outcome.answer))
}

/// The version as text, or the failure: for assertions that compare whole lists of outcomes.
pub(crate) fn version_or_failure(outcome: &Outcome) -> String {
    match &outcome.answer {
        Answer::Body(_) => version_in(outcome).map(|version| version.to_string()).unwrap_or_default(),
        Answer::Failed(failure) => format!("{failure:?}"),
    }
}
