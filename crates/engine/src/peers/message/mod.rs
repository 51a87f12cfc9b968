//! Messages between nodes about queries: bytes in, bytes out, no sockets.
//!
//! A question opens with a fixed head, so that the owner finds a hit without reading the rest. Every message has a
//! version. A message of another version is refused, never guessed at, so that nodes of different versions can be in
//! one cluster during a rolling restart (F10).
//!
//! Version 2: a forwarded request says of which database it wants an answer ([`Whose`]). A node of version 1 does not compare
//! it, so it must not answer. All nodes of version 2 know what had come after version 1 without raising it: near copies, the client's
//! limit for a run, ranges (`WITH_RANGE`), transactions that may write (`MAY_WRITE`), and the questions with kinds of their own: after
//! bookmarks (`KIND_ASK_AFTER`), after a write (`KIND_ASK_AFTER_WRITE`), tellings of writes (`KIND_WRITTEN`, `KIND_COUNTED`),
//! observations (`KIND_OBSERVED`), orders (`KIND_ORDERS`), and keys that move (`moved`).
//!
//! A node that does not ask for near copies never gets [`Reply::Near`]. A node that refuses counts of writes is told without them.
//!
//! The transport provides authenticity and secrecy: these bytes contain credentials.

mod inspection;
mod learned;
mod members;
mod moved;
mod observed;
mod prefetch;
mod query;
mod reply;
mod tally;
mod written;

use bytes::Bytes;
use hopcache_core::bookmark::Bookmark;
use hopcache_core::key::{DatabaseTag, KeyHasher, QueryKey};
use hopcache_core::proof::IdRange;
use hopcache_core::ring::RingEpoch;
use hopcache_core::tags::Tag;
use hopcache_core::time::{Millis, MonoTime};
use hopcache_core::written::{Whose, WrittenRecord};
use hopcache_packstream::{DecodeError, Reader, Token, Value, Writer};
use tokio_util::sync::CancellationToken;

use crate::model::ask::{Ask, SessionTag};
use crate::model::inspection::KeyPlan;
use crate::model::ports::{AccessMode, LogMark, Scope};
use crate::model::rendering::RenderingId;
use members::{
    read_freshness, read_hints, read_millis, read_text, write_freshness, write_hints, write_millis,
    write_text,
};
use query::{read_told_query, write_query, write_reading};

pub use inspection::{decode_inspection, encode_inspection};
pub use learned::{decode_fields, encode_fields, encode_fields_wanted, encode_pull};
pub use moved::{Moved, decode_moved, encode_moved, encode_plans, encode_wanted};
pub use observed::{Observation, Observed, ObservedQuery, encode_observed};
pub use prefetch::{
    SentOrder, decode_launches, encode_flush_waste, encode_launches, encode_orders, encode_prefetch,
};
pub use reply::{Reply, decode_reply, encode_reply};
pub use tally::{decode_tally, encode_tally, encode_tally_wanted};
pub use written::{ToldWrites, decode_known_written, encode_counted, encode_known_written, encode_written};

/// Version of every message here. Raised when a byte of them changes its meaning.
pub const VERSION: u8 = 2;

/// Kinds from here on belong to the fronts of different nodes. The engine refuses them as unknown.
pub const KIND_OF_FRONTS_MIN: u8 = 64;

const KIND_ASK: u8 = 1;
const KIND_PURGE: u8 = 2;
const KIND_INSPECT: u8 = 3;
const KIND_WANTED: u8 = 4;
const KIND_PLANS: u8 = 5;
const KIND_OBSERVED: u8 = 15;
const KIND_FIELDS: u8 = 8;
const KIND_PULL: u8 = 9;
const KIND_PREFETCH: u8 = 6;
const KIND_FLUSH_WASTE: u8 = 10;
const KIND_ASK_AFTER: u8 = 11;
const KIND_ASK_AFTER_WRITE: u8 = 12;
const KIND_WRITTEN: u8 = 13;
const KIND_TALLY: u8 = 14;
const KIND_ORDERS: u8 = 16;
const KIND_COUNTED: u8 = 17;

/// Freshness in the head of a question: not the plain rules.
const OWN_ASK: u8 = 0;
/// The plain freshness rules.
const PLAIN_ASK: u8 = 1;
/// The plain freshness rules, from a node that may keep a near copy. The message's last four bytes are
/// [`ForwardedAsk::near_hits`].
const NEAR_ASK: u8 = 2;
/// Added to each of them: the sender understands ranges.
const WITH_RANGE: u8 = 4;
/// Added to each of them: of entries, only a proved one is an answer, unless Neo4j cannot be reached
/// ([`Freshness::may_write`](crate::model::ask::Freshness::may_write)).
const MAY_WRITE: u8 = 8;

/// Why bytes are no message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadMessage {
    /// A message of another version of this program.
    #[error("message version {0}, this node speaks {VERSION}")]
    Version(u8),
    /// Not a message of ours.
    #[error("not a message: {0}")]
    Form(&'static str),
    /// A part of it is not PackStream.
    #[error("not a message: {0}")]
    PackStream(#[from] DecodeError),
    /// The key does not belong to the query: the two nodes derive keys differently.
    #[error(
        "the key does not belong to the query: check that all nodes have the same cluster key and version"
    )]
    Key,
}

/// A question from a peer.
#[derive(Debug, Clone)]
pub enum Question {
    /// A client's request, forwarded.
    Ask(ForwardedAsk),
    /// Forget.
    Purge(Scope),
    /// Asks for the state of memory and flights for a key.
    Inspect(QueryKey),
    /// The value of a key that the asker owns now.
    Wanted {
        /// The key.
        key: QueryKey,
        /// How much of the invalidation log the asker has read.
        log: LogMark,
    },
    /// A leaving node's facts of keys that the asked node will own.
    Plans(Vec<(QueryKey, KeyPlan)>),
    /// Answered requests of sessions that the asked node owns.
    Observed(Observed),
    /// The fields of the results of these keys.
    Fields(Vec<QueryKey>),
    /// Asks for the differences of lessons from this digest.
    Pull(Bytes),
    /// A prefetch, for the owner of its key.
    Prefetch(SentOrder),
    /// Prefetches, for the owner of their keys.
    Orders(Vec<Result<SentOrder, BadMessage>>),
    /// Drop prefetched copies that were not used.
    FlushWaste,
    /// These databases have been written so far.
    Written(ToldWrites),
    /// Asks what the node has written into a database.
    Tally(DatabaseTag, IdRange),
}

/// The head of a forwarded request, and the unread rest.
#[derive(Debug, Clone)]
pub struct ForwardedAsk {
    /// The query's key as the sender states it; checked before it leads to a run.
    key: QueryKey,
    /// The sender's ring.
    epoch: RingEpoch,
    /// Time left to the client's deadline.
    left_ms: Millis,
    /// Wanted rendering. The asked node may not know it.
    rendering: RenderingId,
    /// Whether the plain freshness rules hold, so that a fresh copy is an answer without reading on.
    is_plain: bool,
    /// Whether the request's transaction may write.
    may_write: bool,
    /// Requests that the sender answered from its near copy since its last report; `None` if it keeps no near copy of
    /// the answer.
    near_hits: Option<u32>,
    /// Whether the sender understands ranges.
    knows_ranges: bool,
    /// Of which database the sender wants an answer.
    whose: Whose,
    /// The client's bookmarks.
    after: Bookmark,
    /// How far the database had been written when the request came to the sender.
    written: Option<WrittenRecord>,
    rest: Bytes,
}

/// Writes a client's request for its owner. With `near_hits`, which only a plain request may have, the answer may
/// bring a near copy.
#[must_use]
pub fn encode_ask(
    ask: &Ask,
    left_ms: Millis,
    (epoch, whose): (RingEpoch, Whose),
    near_hits: Option<u32>,
) -> Bytes {
    debug_assert!(!ask.is_forwarded, "I8: a forwarded request is written for another hop");
    let is_plain = ask.freshness.is_plain();
    let near_hits = near_hits.filter(|_| is_plain);
    let mut head = Vec::with_capacity(256 + ask.query.statement.len() + ask.query.params.len());
    let is_after = !ask.bookmarks.is_empty();
    let kind = match ask.written {
        Some(_) => KIND_ASK_AFTER_WRITE,
        None if is_after => KIND_ASK_AFTER,
        None => KIND_ASK,
    };
    head.extend_from_slice(&[VERSION, kind]);
    head.extend_from_slice(&ask.query.key.0);
    head.extend_from_slice(&epoch.0.to_be_bytes());
    head.extend_from_slice(&left_ms.0.to_be_bytes());
    head.push(ask.rendering.0);
    let freshness = match near_hits {
        Some(_) => NEAR_ASK,
        None if is_plain => PLAIN_ASK,
        None => OWN_ASK,
    };
    head.push(freshness | WITH_RANGE | if ask.freshness.may_write { MAY_WRITE } else { 0 });
    whose.write(&mut head);
    if kind != KIND_ASK {
        ask.bookmarks.write(&mut head);
    }
    if let Some(written) = ask.written {
        WrittenRecord::of_all(ask.query.tags.database(), written).write(&mut head);
    }
    let mut writer = Writer::new();
    write_freshness(&mut writer, ask.freshness);
    write_hints(&mut writer, ask.hints);
    write_text(&mut writer, ask.traceparent.as_deref());
    match ask.session {
        None => writer.null(),
        Some(SessionTag(tag)) => writer.bytes(&tag),
    }
    write_query(&mut writer, &ask.query);
    write_millis(&mut writer, ask.run_ms_max);
    write_reading(&mut writer, &ask.query);
    if ask.client.is_some() {
        // An older node reads no further.
        writer.bool(true);
    }
    head.extend_from_slice(&writer.into_bytes());
    if let Some(hits) = near_hits {
        head.extend_from_slice(&hits.to_be_bytes());
    }
    head.into()
}

/// Writes an order to forget.
#[must_use]
pub fn encode_purge(scope: &Scope) -> Bytes {
    let mut bytes = vec![VERSION, KIND_PURGE];
    match scope {
        Scope::Key(key) => {
            bytes.push(0);
            bytes.extend_from_slice(&key.0);
        }
        Scope::Tag(Tag::Database(tag)) => {
            bytes.push(1);
            bytes.extend_from_slice(&tag.0.to_be_bytes());
        }
        Scope::All => bytes.push(2),
    }
    bytes.into()
}

/// Writes a question about a key.
#[must_use]
pub fn encode_inspect(key: &QueryKey) -> Bytes {
    [&[VERSION, KIND_INSPECT][..], &key.0].concat().into()
}

/// Reads a question.
///
/// # Errors
/// [`BadMessage`] if the bytes are no such message of this version.
pub fn decode_question(bytes: &Bytes) -> Result<Question, BadMessage> {
    let mut head = Head(bytes);
    match head.byte()? {
        VERSION => {}
        other => return Err(BadMessage::Version(other)),
    }
    match head.byte()? {
        kind @ (KIND_ASK | KIND_ASK_AFTER | KIND_ASK_AFTER_WRITE) => {
            Ok(Question::Ask(read_ask(&mut head, bytes, kind)?))
        }
        KIND_WRITTEN => written::read_told(&mut head).map(Question::Written),
        KIND_COUNTED => written::read_counted(&mut head).map(Question::Written),
        KIND_TALLY => tally::read_tally_wanted(&mut head).map(|(name, range)| Question::Tally(name, range)),
        KIND_PURGE => match head.byte()? {
            0 => Ok(Question::Purge(Scope::Key(QueryKey(head.take()?)))),
            1 => {
                let tag = u64::from_be_bytes(head.take()?);
                Ok(Question::Purge(Scope::Tag(Tag::Database(DatabaseTag(tag)))))
            }
            2 => Ok(Question::Purge(Scope::All)),
            _ => Err(BadMessage::Form("unknown purge scope")),
        },
        KIND_INSPECT => Ok(Question::Inspect(QueryKey(head.take()?))),
        KIND_WANTED => moved::read_wanted(&mut head).map(|(key, log)| Question::Wanted { key, log }),
        KIND_PLANS => moved::read_plans(&mut head).map(Question::Plans),
        KIND_FIELDS => learned::read_fields_wanted(&mut head).map(Question::Fields),
        KIND_PULL => learned::read_pull(bytes.slice_ref(head.0)).map(Question::Pull),
        KIND_OBSERVED => observed::read_observed(bytes.slice_ref(head.0)).map(Question::Observed),
        KIND_PREFETCH => prefetch::read_order(&mut head, bytes).map(Question::Prefetch),
        KIND_ORDERS => prefetch::read_orders(&mut head, bytes).map(Question::Orders),
        KIND_FLUSH_WASTE => head.end().map(|()| Question::FlushWaste),
        _ => Err(BadMessage::Form("unknown kind")),
    }
}

fn read_ask(head: &mut Head<'_>, bytes: &Bytes, kind: u8) -> Result<ForwardedAsk, BadMessage> {
    let key = QueryKey(head.take()?);
    let epoch = RingEpoch(u64::from_be_bytes(head.take()?));
    let left_ms = Millis(u64::from_be_bytes(head.take()?));
    let rendering = RenderingId(head.byte()?);
    let freshness = head.byte()?;
    let whose = Whose::read(&mut head.0).ok_or(BadMessage::Form("database"))?;
    let after = if kind == KIND_ASK { Some(Bookmark::NONE) } else { Bookmark::read(&mut head.0) };
    let after = after.ok_or(BadMessage::Form("bookmarks"))?;
    let written = match kind {
        KIND_ASK_AFTER_WRITE => Some(WrittenRecord::read(&mut head.0).ok_or(BadMessage::Form("mark"))?),
        _ => None,
    };
    let may_write = freshness & MAY_WRITE != 0;
    let knows_ranges = matches!(freshness & !MAY_WRITE, WITH_RANGE..=6);
    // A value of a later version means that the plain rules do not hold; the rest has the rules.
    let (is_plain, near_hits) = match freshness & !WITH_RANGE & !MAY_WRITE {
        PLAIN_ASK => (true, None),
        NEAR_ASK => (true, Some(u32::from_be_bytes(head.take_last()?))),
        _ => (false, None),
    };
    let rest = bytes.slice_ref(head.0);
    Ok(ForwardedAsk {
        key,
        epoch,
        left_ms,
        rendering,
        is_plain,
        may_write,
        near_hits,
        knows_ranges,
        whose,
        after,
        written,
        rest,
    })
}

impl ForwardedAsk {
    /// The query's key as the sender states it; checked before it leads to a run.
    #[must_use]
    pub fn key(&self) -> &QueryKey {
        &self.key
    }

    /// The length of the part that is not read yet.
    #[must_use]
    pub(crate) fn rest_bytes(&self) -> usize {
        self.rest.len()
    }

    /// The sender's ring.
    #[must_use]
    pub fn epoch(&self) -> RingEpoch {
        self.epoch
    }

    /// Time left to the client's deadline.
    #[must_use]
    pub fn left_ms(&self) -> Millis {
        self.left_ms
    }

    /// Wanted rendering. The asked node may not know it.
    #[must_use]
    pub fn rendering(&self) -> RenderingId {
        self.rendering
    }

    /// Whether the plain freshness rules hold.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.is_plain
    }

    /// Whether the request's transaction may write: of entries only a proved one is an answer then.
    #[must_use]
    pub fn may_write(&self) -> bool {
        self.may_write
    }

    /// Requests that the sender answered from its near copy since its last report; `None` if it keeps no near copy.
    #[must_use]
    pub fn near_hits(&self) -> Option<u32> {
        self.near_hits
    }

    /// Of which database the sender wants an answer.
    #[must_use]
    pub fn whose(&self) -> Whose {
        self.whose
    }

    /// The client's bookmarks.
    #[must_use]
    pub fn after(&self) -> &Bookmark {
        &self.after
    }

    /// How far the database had been written when the request came to the sender.
    #[must_use]
    pub fn written(&self) -> Option<WrittenRecord> {
        self.written
    }

    /// The reply without the parts that the sender does not understand.
    #[must_use]
    pub fn understood(&self, mut reply: Reply) -> Reply {
        if let (false, Reply::Answered(outcome) | Reply::Near(outcome, _)) = (self.knows_ranges, &mut reply) {
            outcome.range = None;
        }
        reply
    }

    /// Reads the rest: the request as if it had come from a client. Only its deadline counts from `now` on this node's
    /// clock.
    ///
    /// # Errors
    /// [`BadMessage`], in particular [`BadMessage::Key`] when the key is not the query's.
    pub fn read(&self, hasher: &KeyHasher, procedures: &[String], now: MonoTime) -> Result<Ask, BadMessage> {
        self.read_noting((hasher, procedures, &|| {}), now)
    }

    /// As [`ForwardedAsk::read`]. `on_lexed` is called if this node lexed the text, because the sender's reading of the
    /// statement was missing or not proved.
    ///
    /// # Errors
    /// As [`ForwardedAsk::read`].
    pub fn read_noting(
        &self,
        lexicon: (&KeyHasher, &[String], &dyn Fn()),
        now: MonoTime,
    ) -> Result<Ask, BadMessage> {
        let mut reader = Reader::new(&self.rest);
        let freshness = read_freshness(&mut reader)?;
        let hints = read_hints(&mut reader)?;
        let traceparent = read_text(&mut reader)?;
        let session = match reader.token()? {
            Token::Null => None,
            Token::Bytes(tag) => Some(SessionTag(tag.try_into().map_err(|_| BadMessage::Form("session"))?)),
            _ => return Err(BadMessage::Form("session")),
        };
        let (query, run_ms_max) = read_told_query(&mut reader, &self.rest, &self.key, lexicon)?;
        // Nothing more, or from an older node: it does not.
        let ends_with_client = matches!(reader.value(), Ok(Value::Bool(true)));
        Ok(Ask {
            query,
            rendering: self.rendering,
            freshness,
            hints,
            mode: AccessMode::Read,
            bypass: None,
            bookmarks: self.after.clone(),
            written: self.written.map(|record| record.written),
            deadline: now + self.left_ms,
            run_ms_max,
            traceparent,
            is_forwarded: true,
            live: None,
            client: ends_with_client.then(CancellationToken::new),
            session,
        })
    }
}

struct Head<'a>(&'a [u8]);

impl Head<'_> {
    fn byte(&mut self) -> Result<u8, BadMessage> {
        Ok(self.take::<1>()?[0])
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], BadMessage> {
        let (head, tail) = self.0.split_first_chunk::<N>().ok_or(BadMessage::Form("cut"))?;
        self.0 = tail;
        Ok(*head)
    }

    fn end(&self) -> Result<(), BadMessage> {
        if self.0.is_empty() { Ok(()) } else { Err(BadMessage::Form("overlong")) }
    }

    fn take_last<const N: usize>(&mut self) -> Result<[u8; N], BadMessage> {
        let (head, last) = self.0.split_last_chunk::<N>().ok_or(BadMessage::Form("cut"))?;
        self.0 = head;
        Ok(*last)
    }
}
