//! The open result of a statement that the cache answered. Its records go out as the bytes that the origin sent, in
//! pieces of PULL's `n`. No value is decoded. Most results are messages already (`messages`); for clients of versions before 6.1
//! some values are rewritten, as bytes too.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes};
use hopcache_bolt::server::old_values::{NoOldForm, OldForm, has_new_values, rewrite};
use hopcache_bolt::server::{Version, reply};
use hopcache_core::bookmark::{Bookmark, Position, ReadRange};
use hopcache_core::limits::BOLT_REPLY_BYTES;
use hopcache_core::result::{ResultSet, StatementKind};
use hopcache_net::body::tied;
use hopcache_packstream::{Reader, Value};

use super::failure::BoltFailure;
use super::messages::{first_message, piece_of, record_in};
use super::options::filtered;
use super::outbox::Outbox;
use super::{cache_note, unsupported};

/// How the records of a piece ended.
pub(super) enum Piece {
    /// SUCCESS with this map, and whether more is left.
    Done { metadata: Value, has_more: bool },
    /// The statement failed behind these records, as it did at Neo4j.
    Failed(BoltFailure),
}

/// The form in which a client wants records.
#[derive(Debug, Clone, Copy)]
pub(super) enum RecordForm {
    /// As Bolt 6.1 has sent them.
    AsStored,
    /// As an older version has them.
    Old(OldForm),
}

impl RecordForm {
    /// The form of this record: one without new values is the same in all versions of Bolt 5.
    fn of(self, record: &[u8]) -> Self {
        if has_new_values(record) { self } else { self.without_new_values() }
    }

    /// The form of records of which none has a value that came with Bolt 6.
    fn without_new_values(self) -> Self {
        match self {
            Self::Old(form) if form.version.major >= 5 => Self::AsStored,
            form => form,
        }
    }
}

/// Records that were not taken yet.
enum UntakenRecords {
    /// One behind the other, as they are stored.
    Records(Bytes),
    /// So many messages, as they go to the socket, and whether a value of one came with Bolt 6.
    Messages { bytes: Bytes, count: u64, has_new: bool },
}

impl UntakenRecords {
    fn is_empty(&self) -> bool {
        match self {
            Self::Records(bytes) | Self::Messages { bytes, .. } => bytes.is_empty(),
        }
    }

    fn clear(&mut self) {
        match self {
            Self::Records(bytes) | Self::Messages { bytes, .. } => bytes.clear(),
        }
    }
}

/// An open result.
pub(super) struct CachedResult {
    fields: Vec<String>,
    rest: UntakenRecords,
    kind: Option<StatementKind>,
    summary: Value,
    failure: Option<BoltFailure>,
    /// The first type for which the client has got a map, as its version does not have it.
    replaced: Option<String>,
    /// The text of `Cache-Status`.
    status: String,
    /// Between which transactions it was read, where that is known.
    range: Option<Arc<ReadRange>>,
    /// How long a hit took; `None` where the run's own times are those of this request.
    hit_ms: Option<i64>,
    /// The client's next bookmark; in a transaction COMMIT has it.
    bookmark: Option<String>,
    /// Whether a notification says where it came from.
    is_noted: bool,
}

impl CachedResult {
    /// A whole result.
    pub(super) fn new(result: ResultSet, status: String) -> Self {
        let ResultSet { fields, records, kind, summary, .. } = result;
        let rest = UntakenRecords::Records(records);
        let (failure, replaced, range) = (None, None, None);
        Self {
            fields,
            rest,
            kind,
            summary,
            failure,
            replaced,
            status,
            range,
            hit_ms: None,
            bookmark: None,
            is_noted: false,
        }
    }

    /// A whole result whose records are messages.
    pub(super) fn of_messages(mut result: ResultSet, has_new: bool, status: String) -> Self {
        let (bytes, count) = (std::mem::take(&mut result.records), result.rows);
        Self { rest: UntakenRecords::Messages { bytes, count, has_new }, ..Self::new(result, status) }
    }

    /// In records that were sent already a map stands for this type.
    pub(super) fn set_replaced(&mut self, replaced: Option<String>) {
        self.replaced = replaced;
    }

    /// A notification says where it came from.
    pub(super) fn set_noted(&mut self, is_noted: bool) {
        self.is_noted = is_noted;
    }

    /// It was read between these transactions.
    pub(super) fn set_range(&mut self, range: Option<Arc<ReadRange>>) {
        self.range = range;
    }

    /// It was a hit, which took so long: the summary has no times of a run that another request has paid for.
    pub(super) fn set_hit(&mut self, took: Duration) {
        self.hit_ms = Some(i64::try_from(took.as_millis()).unwrap_or(i64::MAX));
    }

    /// If no bookmark is known that covers what was asked, this one is sent.
    pub(super) fn or_bookmark(&mut self, of_run: Option<String>) {
        self.bookmark = self.bookmark.take().or(of_run);
    }

    /// The end of what it has read.
    pub(super) fn read_to(&self) -> Option<Position> {
        self.range.as_ref().map(|range| range.to())
    }

    /// Its SUCCESS has a bookmark: what the client has asked with, and the end of what was read.
    pub(super) fn set_bookmark(&mut self, asked: &Bookmark) {
        self.bookmark = self.range.as_ref().and_then(|range| range.bookmark_for(asked).encode());
    }

    /// Records, and the failure behind them.
    pub(super) fn failed(fields: Vec<String>, records: Bytes, failure: BoltFailure) -> Self {
        Self {
            fields,
            rest: UntakenRecords::Records(records),
            kind: None,
            summary: Value::Map(Vec::new()),
            failure: Some(failure),
            replaced: None,
            status: String::new(),
            range: None,
            hit_ms: None,
            bookmark: None,
            is_noted: false,
        }
    }

    /// Keeps the notifications that the client wants, in the form that its version knows: a kept summary has both.
    pub(super) fn filter(&mut self, version: Version, extra: &Value, hello: &Value) {
        let Value::Map(pairs) = &mut self.summary else { return };
        let has_statuses = version.has_statuses() && pairs.iter().any(|(name, _)| name == "statuses");
        pairs.retain_mut(|(name, value)| {
            match name.as_str() {
                "notifications" if !has_statuses => {}
                "statuses" if has_statuses => {}
                "notifications" | "statuses" => return false,
                _ => return true,
            }
            match filtered(value, extra, hello) {
                Some(kept) => {
                    *value = kept;
                    true
                }
                None => false,
            }
        });
    }

    /// RUN's SUCCESS: with a number in a transaction. By itself, from 5.8 on, with the database, which drivers keep as the home of
    /// clients that name none.
    pub(super) fn opening(&self, version: Version, qid: Option<i64>) -> Value {
        let fields = self.fields.iter().map(|name| Value::from(name.as_str())).collect();
        let of_run = || self.summary.get("t_first").cloned().unwrap_or(Value::Int(0));
        let first = self.hit_ms.map_or_else(of_run, Value::Int);
        let mut pairs = vec![("t_first".to_owned(), first), ("fields".to_owned(), Value::List(fields))];
        let home = self.summary.get("db").filter(|_| qid.is_none() && version.at_least(5, 8));
        pairs.extend(home.map(|name| ("db".to_owned(), name.clone())));
        pairs.extend(qid.map(|qid| ("qid".to_owned(), Value::Int(qid))));
        Value::Map(pairs)
    }

    /// Sends at most this many records. Without `out` it drops them.
    ///
    /// # Errors
    /// When the client has gone.
    pub(super) async fn take(
        &mut self,
        records_max: Option<u64>,
        out: Option<(&mut Outbox, RecordForm)>,
    ) -> io::Result<Piece> {
        let mut left = records_max.unwrap_or(u64::MAX);
        let Some(out) = out else {
            self.skip(records_max, &mut left);
            return Ok(self.end(left == 0));
        };
        let sent = match &mut self.rest {
            UntakenRecords::Records(records) => send_records(records, &mut left, out).await?,
            UntakenRecords::Messages { bytes, count, has_new } => match out {
                (out, RecordForm::Old(form)) if *has_new => {
                    send_old_messages((bytes, count), left, (out, form)).await?
                }
                (out, _) => send_messages((bytes, count), left, out).await.map(|()| Ok(None))?,
            },
        };
        match sent {
            Ok(replaced) => {
                self.replaced = self.replaced.take().or(replaced);
                Ok(self.end(left == 0))
            }
            Err(failure) => Ok(Piece::Failed(failure)),
        }
    }

    fn skip(&mut self, records_max: Option<u64>, left: &mut u64) {
        match (records_max, &mut self.rest) {
            (None, rest) => rest.clear(),
            (Some(_), UntakenRecords::Records(records)) => skip_records(records, left),
            (Some(left), UntakenRecords::Messages { bytes, count, .. }) => {
                let (skipped, messages) = piece_of(bytes, left, usize::MAX);
                bytes.advance(skipped.len());
                *count = count.saturating_sub(messages);
            }
        }
    }

    /// As Neo4j, which looks for the next record only when it is asked for it: a failure behind the last record that was asked for
    /// comes with the next piece.
    fn end(&mut self, is_full: bool) -> Piece {
        if !self.rest.is_empty() || (is_full && self.failure.is_some()) {
            let has_more = vec![("has_more".to_owned(), Value::Bool(true))];
            return Piece::Done { metadata: Value::Map(has_more), has_more: true };
        }
        if let Some(failure) = self.failure.take() {
            return Piece::Failed(failure);
        }
        let mut pairs = Vec::new();
        pairs.extend(self.kind.map(|kind| ("type".to_owned(), Value::from(kind.to_bolt()))));
        if let Value::Map(summary) = &self.summary {
            let is_hit = self.hit_ms.is_some();
            let is_sent = |name: &str| name != "t_first" && !(is_hit && name == "t_last");
            pairs.extend(summary.iter().filter(|(name, _)| is_sent(name)).cloned());
        }
        if let Some(kind) = &self.replaced {
            unsupported::note(&mut pairs, kind);
        }
        if self.is_noted {
            cache_note::add(&mut pairs, &self.status);
        }
        if self.hit_ms.is_some() || self.summary.get("t_last").is_none() {
            pairs.push(("t_last".to_owned(), Value::Int(0)));
        }
        pairs.extend(self.bookmark.take().map(|text| ("bookmark".to_owned(), Value::String(text))));
        pairs.push(("hopcache".to_owned(), Value::from(self.status.as_str())));
        Piece::Done { metadata: Value::Map(pairs), has_more: false }
    }
}

/// Sends at most `messages_max` messages from the front of `rest`, which has `count` of them.
///
/// # Errors
/// When the client has gone.
async fn send_messages(
    (rest, count): (&mut Bytes, &mut u64),
    messages_max: u64,
    out: &mut Outbox,
) -> io::Result<()> {
    let mut left = messages_max.min(*count);
    while left > 0 && !rest.is_empty() {
        // Only whole messages are appended: a request that is dropped in the middle leaves none half sent.
        let (piece, messages) = if left == *count && rest.len() <= BOLT_REPLY_BYTES {
            (rest.clone(), left)
        } else {
            piece_of(rest, left, BOLT_REPLY_BYTES)
        };
        out.bytes().extend_from_slice(&piece);
        rest.advance(piece.len());
        left -= messages.min(left);
        *count = count.saturating_sub(messages);
        if out.is_full() {
            out.flush().await?;
        }
    }
    Ok(())
}

/// As [`send_messages`], in an older form. Returns the first type for which a map was sent.
///
/// # Errors
/// When the client has gone; inside, when a record has no such form.
async fn send_old_messages(
    (rest, count): (&mut Bytes, &mut u64),
    messages_max: u64,
    (out, form): (&mut Outbox, OldForm),
) -> io::Result<Sent> {
    let (mut replaced, mut record, mut rewritten) = (None, Vec::new(), Vec::new());
    for _ in 0..messages_max.min(*count) {
        if rest.is_empty() {
            break;
        }
        let message = first_message(rest).len();
        record_in(&rest[..message], &mut record);
        let form = RecordForm::Old(form);
        match append_record(out.bytes(), &record, (form, &mut rewritten)) {
            Ok(kind) => replaced = replaced.or(kind),
            Err(error) => {
                *rest = Bytes::new();
                return Ok(Err(no_old_form(&error)));
            }
        }
        rest.advance(message);
        *count = count.saturating_sub(1);
        if out.is_full() {
            out.flush().await?;
        }
    }
    Ok(Ok(replaced))
}

/// Appends a RECORD in the form that the client wants. Returns the first type for which a map stands in it.
fn append_record(
    out: &mut Vec<u8>,
    record: &[u8],
    (form, rewritten): (RecordForm, &mut Vec<u8>),
) -> Result<Option<String>, NoOldForm> {
    let RecordForm::Old(form) = form.of(record) else {
        reply::record(out, record);
        return Ok(None);
    };
    rewritten.clear();
    let replaced = rewrite(record, form, rewritten)?;
    reply::record(out, rewritten);
    Ok(replaced)
}

fn no_old_form(error: &NoOldForm) -> BoltFailure {
    BoltFailure::own("NoOldForm", format!("A value has no form in this version of Bolt: {error}."))
}

/// The first type for which a map was sent, or the failure that ends the records.
type Sent = Result<Option<String>, BoltFailure>;

/// Sends at most `left` records from the front of `rest`, and counts them down. Returns the first type for which a map was
/// sent.
///
/// # Errors
/// When the client has gone; inside, when a record cannot be read. Entries carry a checksum, so that is a defect of this
/// node.
pub(super) async fn send_records(
    rest: &mut Bytes,
    left: &mut u64,
    (out, form): (&mut Outbox, RecordForm),
) -> io::Result<Sent> {
    let (mut replaced, mut rewritten) = (None, Vec::new());
    while *left > 0 && !rest.is_empty() {
        let Ok(record) = Reader::new(rest).skip() else {
            *rest = Bytes::new();
            let message = "A kept record cannot be read.";
            return Ok(Err(BoltFailure::new("Neo.DatabaseError.General.UnknownError", message)));
        };
        let len = record.len();
        let appended = if len > BOLT_REPLY_BYTES {
            push_large(out, rest.slice(..len), form)
        } else {
            append_record(out.bytes(), record, (form, &mut rewritten))
        };
        match appended {
            Ok(kind) => replaced = replaced.or(kind),
            Err(error) => {
                *rest = Bytes::new();
                return Ok(Err(no_old_form(&error)));
            }
        }
        drop_front(rest, len);
        *left -= 1;
        if out.is_full() {
            out.flush().await?;
        }
    }
    Ok(Ok(replaced))
}

/// As [`append_record`], for a record that is not copied. In an older form it is another one, beside which it keeps its place in the
/// room of large records.
fn push_large(out: &mut Outbox, record: Bytes, form: RecordForm) -> Result<Option<String>, NoOldForm> {
    let RecordForm::Old(form) = form.of(&record) else {
        out.push_record(record);
        return Ok(None);
    };
    let mut rewritten = Vec::new();
    let replaced = rewrite(&record, form, &mut rewritten)?;
    out.push_record(tied(rewritten, record));
    Ok(replaced)
}

/// Drops the first bytes. An empty rest holds nothing: a large record has its place as long as any part of it is held.
fn drop_front(rest: &mut Bytes, len: usize) {
    rest.advance(len);
    if rest.is_empty() {
        *rest = Bytes::new();
    }
}

/// Drops at most `left` records, and counts them down.
pub(super) fn skip_records(rest: &mut Bytes, left: &mut u64) {
    while *left > 0 && !rest.is_empty() {
        let Ok(record) = Reader::new(rest).skip() else {
            *rest = Bytes::new();
            return;
        };
        let len = record.len();
        drop_front(rest, len);
        *left -= 1;
    }
}

#[cfg(test)]
mod tests;
