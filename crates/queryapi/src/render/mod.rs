//! A result as the body of the server's answer: `data`, `notifications`, `counters`, `queryPlan` or
//! `profiledQueryPlan`, `errors`, `bookmarks`, in this order, each only if it applies.
//!
//! Records are walked token by token into one buffer; they never become a tree.

mod answer;
mod columns;
mod graph;
mod map_order;
mod summary;
mod transaction;
mod value;

use hopcache_packstream::{DecodeError, Reader, Token, Value};

use crate::json;
use value::Renderer;

pub use answer::{answer, with_bookmark};
pub use columns::{has_columns, with_columns};
pub use transaction::{Behind, OpenTransaction, in_transaction, without_result};

/// How values are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// `application/json`: types that JSON lacks become text.
    Plain,
    /// `application/vnd.neo4j.query`: every value is `{"$type":…,"_value":…}`.
    Typed,
}

/// Whether the body has `counters` (the request member `includeCounters`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Counters {
    /// The body has counters.
    Include,
    /// The body has no counters.
    Omit,
}

/// The form of the body that the client asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ResponseForm {
    /// How values are written.
    pub encoding: Encoding,
    /// Whether counters are shown.
    pub counters: Counters,
}

/// A result, borrowed.
#[derive(Debug, Clone, Copy)]
pub struct ResultView<'a> {
    /// Column names.
    pub fields: &'a [String],
    /// The records one behind the other, each a PackStream list.
    pub records: &'a [u8],
    /// Bolt's summary map (`stats`, `notifications`, `plan`, `profile`); anything else in it is ignored.
    pub summary: &'a Value,
    /// Bookmarks of the run. `None` leaves the member out, as after a failure.
    pub bookmarks: &'a [String],
    /// Code and message of each failure behind the records. `None` leaves the member out.
    pub errors: &'a [(String, String)],
}

/// Why a result has no JSON. The stored bytes are damaged, or hold something newer than Bolt 5.4: drop
/// the entry and run the statement at the origin.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RenderError {
    /// Not PackStream.
    #[error("result: {0}")]
    PackStream(#[from] DecodeError),
    /// A record that is not a list.
    #[error("result: a record is not a list")]
    Record,
    /// A structure that Bolt 5 does not define, or one with other fields than it defines.
    #[error("result: structure 0x{0:02X} is unknown or has other fields than Bolt 5 gives it")]
    Structure(u8),
    /// A zone name that the bundled tz database lacks.
    #[error("result: time zone {0:?} is unknown")]
    Zone(String),
    /// A part of the summary that does not have Bolt's shape.
    #[error("result: the summary's {0} has an unknown shape")]
    Summary(&'static str),
    /// The body is larger than the caller takes.
    #[error("the body of the result is larger than {limit_bytes} bytes")]
    TooLarge {
        /// The bound, in bytes.
        limit_bytes: usize,
    },
}

/// Writes the body for `view`.
///
/// # Errors
/// [`RenderError`] when the bytes are not a result of Bolt 5.
pub fn render(view: &ResultView<'_>, form: ResponseForm) -> Result<Vec<u8>, RenderError> {
    render_within(view, form, usize::MAX)
}

/// Like [`render`], with a bound on the bytes of records: a typed body can be thirty times its packed form. The bound
/// is checked after each record.
///
/// # Errors
/// As [`render`], and [`RenderError::TooLarge`].
pub fn render_within(
    view: &ResultView<'_>,
    form: ResponseForm,
    limit_bytes: usize,
) -> Result<Vec<u8>, RenderError> {
    // A typed value is about four times its packed form, a plain one about one and a half.
    let growth = if form.encoding == Encoding::Typed { 5 } else { 2 };
    let expected_bytes = view.records.len().saturating_mul(growth).saturating_add(256);
    let mut out = Vec::with_capacity(expected_bytes.min(limit_bytes));
    out.extend_from_slice(columns::HEAD);
    strings(&mut out, view.fields);
    out.extend_from_slice(columns::VALUES);
    let mut reader = Reader::new(view.records);
    let mut renderer = Renderer::new(&mut out, form.encoding);
    let mut first = true;
    while !reader.is_empty() {
        let Token::List(len) = reader.token()? else { return Err(RenderError::Record) };
        renderer.comma(&mut first);
        renderer.items(&mut reader, len, 1)?;
        if renderer.out.len() > limit_bytes {
            return Err(RenderError::TooLarge { limit_bytes });
        }
    }
    out.extend_from_slice(b"]}");
    // A failed run has no summary: the server shows neither counters nor notifications then.
    if view.errors.is_empty() {
        summary::append(&mut out, view.summary, form)?;
    } else {
        out.extend_from_slice(b",\"errors\":");
        errors(&mut out, view.errors);
    }
    if !view.bookmarks.is_empty() {
        out.extend_from_slice(b",\"bookmarks\":");
        strings(&mut out, view.bookmarks);
    }
    out.push(b'}');
    Ok(out)
}

/// Appends `[{"code":…,"message":…},…]`.
pub(crate) fn errors(out: &mut Vec<u8>, errors: &[(String, String)]) {
    out.push(b'[');
    for (index, (code, message)) in errors.iter().enumerate() {
        out.extend_from_slice(if index == 0 { b"{\"code\":" } else { b",{\"code\":" });
        json::string(out, code);
        out.extend_from_slice(b",\"message\":");
        json::string(out, message);
        out.push(b'}');
    }
    out.push(b']');
}

fn strings(out: &mut Vec<u8>, items: &[String]) {
    out.push(b'[');
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        json::string(out, item);
    }
    out.push(b']');
}
