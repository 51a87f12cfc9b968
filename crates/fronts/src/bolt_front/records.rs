//! The open result of a statement that the cache answered. Its records go out as the bytes that the origin sent, in
//! pieces of PULL's `n`. No value is decoded. Most results are messages already (`messages`); for clients of Bolt 4 some
//! structures are rewritten, as bytes too.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes};
use hopcache_bolt::server::old_values::{OldForm, rewrite};
use hopcache_bolt::server::{Version, reply};
use hopcache_core::bookmark::{Bookmark, Position, ReadRange};
use hopcache_core::limits::BOLT_REPLY_BYTES;
use hopcache_core::result::{ResultSet, StatementKind};
use hopcache_packstream::{Reader, Value};

use super::failure::BoltFailure;
use super::messages::piece_of;
use super::options::filtered;
use super::outbox::Outbox;

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
    /// As Bolt 5 has sent them.
    AsStored,
    /// As Bolt 4 has them.
    Old(OldForm),
}

/// Records that were not taken yet.
enum UntakenRecords {
    /// One behind the other, as they are stored.
    Records(Bytes),
    /// So many messages, as they go to the socket.
    Messages { bytes: Bytes, count: u64 },
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
    /// The text of `Cache-Status`.
    status: String,
    /// Between which transactions it was read, where that is known.
    range: Option<Arc<ReadRange>>,
    /// How long a hit took; `None` where the run's own times are those of this request.
    hit_ms: Option<i64>,
    /// The client's next bookmark; in a transaction COMMIT has it.
    bookmark: Option<String>,
}

impl CachedResult {
    /// A whole result.
    pub(super) fn new(result: ResultSet, status: String) -> Self {
        let ResultSet { fields, records, kind, summary, .. } = result;
        let rest = UntakenRecords::Records(records);
        Self { fields, rest, kind, summary, failure: None, status, range: None, hit_ms: None, bookmark: None }
    }

    /// A whole result whose records are messages.
    pub(super) fn of_messages(mut result: ResultSet, status: String) -> Self {
        let (bytes, count) = (std::mem::take(&mut result.records), result.rows);
        Self { rest: UntakenRecords::Messages { bytes, count }, ..Self::new(result, status) }
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
            status: String::new(),
            range: None,
            hit_ms: None,
            bookmark: None,
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
        let Some(out) = out else {
            self.skip(records_max);
            return Ok(self.end());
        };
        let mut left = records_max.unwrap_or(u64::MAX);
        let sent = match &mut self.rest {
            UntakenRecords::Records(records) => send_records(records, &mut left, out).await?,
            UntakenRecords::Messages { bytes, count } => {
                Ok(send_messages((bytes, count), left, out.0).await?)
            }
        };
        match sent {
            Ok(()) => Ok(self.end()),
            Err(failure) => Ok(Piece::Failed(failure)),
        }
    }

    fn skip(&mut self, records_max: Option<u64>) {
        match (records_max, &mut self.rest) {
            (None, rest) => rest.clear(),
            (Some(mut left), UntakenRecords::Records(records)) => skip_records(records, &mut left),
            (Some(left), UntakenRecords::Messages { bytes, count }) => {
                let (skipped, messages) = piece_of(bytes, left, usize::MAX);
                bytes.advance(skipped.len());
                *count = count.saturating_sub(messages);
            }
        }
    }

    fn end(&mut self) -> Piece {
        if !self.rest.is_empty() {
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

/// Sends at most `left` records from the front of `rest`, and counts them down.
///
/// # Errors
/// When the client has gone; inside, when a record cannot be read. Entries carry a checksum, so that is a defect of this
/// node.
pub(super) async fn send_records(
    rest: &mut Bytes,
    left: &mut u64,
    (out, form): (&mut Outbox, RecordForm),
) -> io::Result<Result<(), BoltFailure>> {
    let mut rewritten = Vec::new();
    while *left > 0 && !rest.is_empty() {
        let Ok(record) = Reader::new(rest).skip() else {
            *rest = Bytes::new();
            let message = "A kept record cannot be read.";
            return Ok(Err(BoltFailure::new("Neo.DatabaseError.General.UnknownError", message)));
        };
        let len = record.len();
        match form {
            RecordForm::AsStored => reply::record(out.bytes(), record),
            RecordForm::Old(form) => {
                rewritten.clear();
                if let Err(error) = rewrite(record, form, &mut rewritten) {
                    *rest = Bytes::new();
                    let message = format!("A value has no form in Bolt 4: {error}.");
                    return Ok(Err(BoltFailure::own("NoOldForm", message)));
                }
                reply::record(out.bytes(), &rewritten);
            }
        }
        rest.advance(len);
        *left -= 1;
        if out.is_full() {
            out.flush().await?;
        }
    }
    Ok(Ok(()))
}

/// Drops at most `left` records, and counts them down.
pub(super) fn skip_records(rest: &mut Bytes, left: &mut u64) {
    while *left > 0 && !rest.is_empty() {
        let Ok(record) = Reader::new(rest).skip() else {
            *rest = Bytes::new();
            return;
        };
        let len = record.len();
        rest.advance(len);
        *left -= 1;
    }
}

#[cfg(test)]
mod tests {
    use hopcache_core::bookmark::{DatabaseUuid, TransactionId};
    use hopcache_packstream::encode;
    use tokio::io::AsyncReadExt;

    use super::*;

    fn three() -> CachedResult {
        let records: Vec<u8> = (1..=3_i64).flat_map(|n| encode(&Value::List(vec![n.into()]))).collect();
        let summary = Value::Map(vec![
            ("t_first".to_owned(), Value::Int(7)),
            ("db".to_owned(), "neo4j".into()),
            ("t_last".to_owned(), Value::Int(9)),
        ]);
        let result = ResultSet {
            fields: vec!["n".to_owned()],
            records: records.into(),
            rows: 3,
            kind: Some(StatementKind::Read),
            summary,
            bookmark: None,
            range: None,
            marked: None,
        };
        CachedResult::new(result, "node-a; hit".to_owned())
    }

    /// The client's own bookmark and the entry's, whichever is later.
    #[tokio::test]
    async fn the_last_piece_has_the_clients_next_bookmark() {
        let at = |id| Position { database: DatabaseUuid([1; 16]), id: TransactionId(id) };
        let mut result = three();
        result.set_bookmark(&Bookmark::NONE);
        let (_, piece) = sent(&mut result, None).await;
        assert!(matches!(piece, Piece::Done { metadata, .. } if metadata.get("bookmark").is_none()));
        let mut result = three();
        let asked = Bookmark::NONE.with(Some(at(7)));
        result.set_range(ReadRange::new(asked.clone(), at(9)).map(Arc::new));
        result.set_bookmark(&asked);
        let (_, piece) = sent(&mut result, None).await;
        let Piece::Done { metadata, .. } = piece else { unreachable!() };
        let text = Bookmark::NONE.with(Some(at(9))).encode().unwrap();
        assert_eq!(metadata.get("bookmark"), Some(&Value::String(text)));
    }

    async fn sent(result: &mut CachedResult, records_max: Option<u64>) -> (Vec<u8>, Piece) {
        let (ours, mut theirs) = tokio::io::duplex(1 << 10);
        let mut out = Outbox::new(ours);
        let piece = result.take(records_max, Some((&mut out, RecordForm::AsStored))).await.unwrap();
        out.flush().await.unwrap();
        drop(out);
        let mut bytes = Vec::new();
        theirs.read_to_end(&mut bytes).await.unwrap();
        (bytes, piece)
    }

    #[tokio::test]
    async fn records_go_out_in_pieces_and_the_last_has_the_summary() {
        let mut result = three();
        let opening = |minor, qid| result.opening(Version::new(5, minor), qid);
        assert_eq!(opening(8, None).get("t_first"), Some(&Value::Int(7)));
        assert_eq!(opening(8, None).get("db"), Some(&"neo4j".into()));
        assert_eq!((opening(7, None).get("db"), opening(8, Some(0)).get("db")), (None, None));
        let (bytes, piece) = sent(&mut result, Some(2)).await;
        assert_eq!(bytes, [0, 4, 0xB1, 0x71, 0x91, 1, 0, 0, 0, 4, 0xB1, 0x71, 0x91, 2, 0, 0]);
        assert!(matches!(piece, Piece::Done { has_more: true, .. }));
        let (bytes, piece) = sent(&mut result, None).await;
        assert_eq!(bytes, [0, 4, 0xB1, 0x71, 0x91, 3, 0, 0]);
        let Piece::Done { metadata, has_more: false } = piece else { unreachable!() };
        let names = ["type", "db", "t_last", "hopcache"];
        let Value::Map(pairs) = &metadata else { unreachable!() };
        assert_eq!(pairs.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), names);
    }

    /// F13: the times of a hit are its own, and not those of the run that filled the entry.
    #[tokio::test]
    async fn a_hit_has_its_own_times() {
        let mut result = three();
        result.set_hit(Duration::from_millis(2));
        assert_eq!(result.opening(Version::new(5, 4), None).get("t_first"), Some(&Value::Int(2)));
        let (_, piece) = sent(&mut result, None).await;
        let Piece::Done { metadata, .. } = piece else { unreachable!() };
        assert_eq!(metadata.get("t_last"), Some(&Value::Int(0)));
    }

    /// A piece that ends with the last record ends the result: like Neo4j, it does not make the client ask once more.
    #[tokio::test]
    async fn a_piece_of_all_records_is_the_last() {
        let (_, piece) = sent(&mut three(), Some(3)).await;
        assert!(matches!(piece, Piece::Done { has_more: false, .. }));
    }

    #[tokio::test]
    async fn dropped_records_are_not_sent() {
        let mut result = three();
        assert!(matches!(result.take(Some(2), None).await.unwrap(), Piece::Done { has_more: true, .. }));
        let (bytes, _) = sent(&mut result, None).await;
        assert_eq!(bytes, [0, 4, 0xB1, 0x71, 0x91, 3, 0, 0]);
        assert!(matches!(three().take(None, None).await.unwrap(), Piece::Done { has_more: false, .. }));
    }

    #[tokio::test]
    async fn a_failure_comes_behind_its_records() {
        let records = encode(&Value::List(vec![Value::Int(1)]));
        let failure = BoltFailure::new("Neo.ClientError.Statement.ArithmeticError", "/ by zero");
        let mut result = CachedResult::failed(vec!["n".to_owned()], records.into(), failure.clone());
        let (bytes, piece) = sent(&mut result, None).await;
        assert_eq!(bytes, [0, 4, 0xB1, 0x71, 0x91, 1, 0, 0]);
        assert!(matches!(piece, Piece::Failed(failure) if failure == failure));
    }
}
