//! A result as the body of the server's answer: `data`, `notifications`, `counters`, `queryPlan` or
//! `profiledQueryPlan`, `queryType` and two times, `errors`, `bookmarks`, in this order, each only if it applies.
//!
//! Records are walked token by token into one buffer; they never become a tree.

mod answer;
mod columns;
mod graph;
mod large_record;
mod map_order;
mod pieces;
mod summary;
mod transaction;
mod value;
mod vectors;

use hopcache_packstream::{DecodeError, Reader, Token, Value};

use crate::{failure, json};
use value::Renderer;

pub use answer::{answer, with_bookmark};
pub use columns::{has_columns, with_columns};
pub use pieces::Pieces;
pub use transaction::{Behind, OpenTransaction, in_transaction, without_result};

/// How values are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// `application/json`: types that JSON lacks become text.
    Plain,
    /// `application/vnd.neo4j.query`: every value is `{"$type":…,"_value":…}`.
    Typed,
    /// `application/vnd.neo4j.query.v1.0`: as [`Encoding::Typed`].
    TypedV10,
    /// `application/vnd.neo4j.query.v1.1`: also vectors.
    TypedV11,
    /// `application/vnd.neo4j.query.v1.2`: also UUIDs.
    TypedV12,
}

impl Encoding {
    /// Every encoding, in the order of their numbers between nodes.
    pub const ALL: [Self; 5] = [Self::Plain, Self::Typed, Self::TypedV10, Self::TypedV11, Self::TypedV12];

    /// Whether every value has its type.
    #[must_use]
    pub const fn is_typed(self) -> bool {
        !matches!(self, Self::Plain)
    }

    /// Whether it has a form for vectors, and for types that it does not know.
    #[must_use]
    pub const fn has_vectors(self) -> bool {
        matches!(self, Self::Plain | Self::TypedV11 | Self::TypedV12)
    }

    /// Whether it has a form for UUIDs.
    #[must_use]
    pub const fn has_uuids(self) -> bool {
        matches!(self, Self::Plain | Self::TypedV12)
    }

    /// Whether an answer ends at a value of a type that it does not have. Otherwise a text stands for the value.
    const fn refuses_unsupported(self) -> bool {
        !self.is_typed() || !self.has_vectors()
    }
}

/// Whether the body has `counters` (the request member `includeCounters`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Counters {
    /// The body has counters.
    Include,
    /// The body has no counters.
    Omit,
}

/// Whether the body has `queryType`, `resultAvailableAfter` and `resultConsumedAfter`, as from 2026.09 on
/// ([`crate::Generation::has_times`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Times {
    /// The body has them.
    Include,
    /// The body has none of them.
    Omit,
}

/// The form of the body that the client asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ResponseForm {
    /// How values are written.
    pub encoding: Encoding,
    /// Whether counters are shown.
    pub counters: Counters,
    /// Whether the kind of the statement and its times are shown.
    pub times: Times,
}

/// A result, borrowed.
#[derive(Debug, Clone, Copy)]
pub struct ResultView<'a> {
    /// Bolt's `type`: `r`, `rw`, `w` or `s`, if it is known.
    pub kind: Option<&'a str>,
    /// Column names.
    pub fields: &'a [String],
    /// The records one behind the other, each a PackStream list.
    pub records: &'a [u8],
    /// Bolt's summary map (`stats`, `notifications`, `plan`, `profile`, `t_first`, `t_last`); anything else in it is ignored.
    pub summary: &'a Value,
    /// Bookmarks of the run. `None` leaves the member out, as after a failure.
    pub bookmarks: &'a [String],
    /// Code and message of each failure behind the records. `None` leaves the member out.
    pub errors: &'a [(String, String)],
}

/// Why a result has no JSON. The stored bytes are damaged, or hold something newer than Bolt 6.1: drop
/// the entry and run the statement at the origin.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RenderError {
    /// Not PackStream.
    #[error("result: {0}")]
    PackStream(#[from] DecodeError),
    /// A record that is not a list.
    #[error("result: a record is not a list")]
    Record,
    /// A structure that Bolt does not define, or one with other fields than it defines.
    #[error("result: structure 0x{0:02X} is unknown or has other fields than Bolt gives it")]
    Structure(u8),
    /// A value of a type that the encoding does not have. A whole answer ends there, with an error.
    #[error("result: the encoding has no form for a value of type {0}")]
    Type(String),
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
    body(view, form, limit_bytes).map(|(body, _)| body)
}

/// How the values of a body end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// All are there.
    Whole,
    /// A value has a type that the encoding does not have. As at the server, the values before it are there, then an error;
    /// neither summary nor bookmarks.
    Refused,
}

/// The body, and how its values end.
fn body(
    view: &ResultView<'_>,
    form: ResponseForm,
    limit_bytes: usize,
) -> Result<(Vec<u8>, End), RenderError> {
    // A typed value is about four times its packed form, a plain one about one and a half.
    let growth = if form.encoding.is_typed() { 5 } else { 2 };
    let expected_bytes = view.records.len().saturating_mul(growth).saturating_add(256);
    let mut out = Vec::with_capacity(expected_bytes.min(limit_bytes));
    begin(&mut out, view.fields);
    let mut reader = Reader::new(view.records);
    let mut first = true;
    while !reader.is_empty() {
        if let Some(refused) = record(&mut out, &mut reader, &mut first, form.encoding)? {
            refuse(&mut out, &refused);
            return Ok((out, End::Refused));
        }
        if out.len() > limit_bytes {
            return Err(RenderError::TooLarge { limit_bytes });
        }
    }
    end(&mut out, view, form)?;
    Ok((out, End::Whole))
}

/// How a body begins: the names of the columns.
fn begin(out: &mut Vec<u8>, fields: &[String]) {
    out.extend_from_slice(columns::HEAD);
    strings(out, fields);
    out.extend_from_slice(columns::VALUES);
}

/// The next record. Returns the type of a value that the encoding does not have: the body ends there, by [`refuse`].
fn record(
    out: &mut Vec<u8>,
    reader: &mut Reader<'_>,
    first: &mut bool,
    encoding: Encoding,
) -> Result<Option<String>, RenderError> {
    let Token::List(len) = reader.token()? else { return Err(RenderError::Record) };
    let mut renderer = Renderer::new(out, encoding);
    renderer.comma(first);
    renderer.record(reader, len)
}

/// The end of a body behind a value of a type that the encoding does not have.
fn refuse(out: &mut Vec<u8>, refused: &str) {
    fail(out, &[(failure::CODE_INVALID.to_owned(), failure::unsupported_type(refused))]);
    out.push(b'}');
}

/// The errors behind the records.
fn fail(out: &mut Vec<u8>, failures: &[(String, String)]) {
    out.extend_from_slice(b"]},\"errors\":");
    errors(out, failures);
}

/// The end of a body behind all of its records.
fn end(out: &mut Vec<u8>, view: &ResultView<'_>, form: ResponseForm) -> Result<(), RenderError> {
    // A failed run has no summary: the server shows neither counters nor notifications then.
    if view.errors.is_empty() {
        out.extend_from_slice(b"]}");
        summary::append(out, view.summary, form)?;
        if form.times == Times::Include {
            summary::times(out, view.kind, view.summary);
        }
    } else {
        fail(out, view.errors);
    }
    if !view.bookmarks.is_empty() {
        out.extend_from_slice(b",\"bookmarks\":");
        strings(out, view.bookmarks);
    }
    out.push(b'}');
    Ok(())
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
