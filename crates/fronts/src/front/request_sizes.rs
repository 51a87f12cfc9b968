//! The sizes of a request's parts.

use hopcache_core::limits::{BOOKMARKS_MAX, STATEMENT_BYTES_MAX};
use http::StatusCode;

use crate::front::refusal::Refusal;

pub(super) fn check_statement(statement: &str) -> Result<(), Refusal> {
    check_size("statement", statement.len(), STATEMENT_BYTES_MAX, "bytes")
}

pub(super) fn check_bookmarks(bookmarks: &[String]) -> Result<(), Refusal> {
    check_size("bookmarks", bookmarks.len(), BOOKMARKS_MAX, "bookmarks")
}

fn check_size(field: &str, size: usize, most: usize, unit: &str) -> Result<(), Refusal> {
    if size <= most {
        return Ok(());
    }
    let message = format!("{field}: over {most} {unit}.");
    Err(Refusal::own(StatusCode::PAYLOAD_TOO_LARGE, "Hopcache.ClientError.RequestTooLarge", message))
}
