//! A forwarded request: a fixed head for a hit, and the rest for a run.

use std::sync::Arc;

use bytes::Bytes;
use hopcache_core::bookmark::Bookmark;
use hopcache_core::key::{KeyHasher, QueryKey};
use hopcache_core::ring::RingEpoch;
use hopcache_core::time::{Millis, MonoTime};
use hopcache_core::wire::{WIRE_VERSION, append, from_bytes};
use hopcache_core::write_position::{DataOwner, WritePosition};
use hopcache_cypher::verdict::Allowed;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use super::query::{Lexicon, SentQuery, told_query};
use super::{BadMessage, KIND_ASK};
use crate::model::ask::{Ask, Freshness, Hints, PeerReading, SessionTag};
use crate::model::ports::AccessMode;
use crate::model::rendering::RenderingId;
use crate::model::text_facts::TextFacts;

/// In the head: the plain freshness rules hold.
const PLAIN: u8 = 1;
/// The sender may keep a near copy; [`ForwardedAsk::near_hits`] follows. Only of a plain request.
const NEAR: u8 = 2;
/// Of entries, only a proved one is an answer, unless Neo4j cannot be reached
/// ([`Freshness::may_write`](crate::model::ask::Freshness::may_write)).
const MAY_WRITE: u8 = 4;
/// The client's bookmarks follow.
const AFTER: u8 = 8;
/// The mark of a write follows.
const WRITTEN: u8 = 16;

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
    /// Of which database the sender wants an answer.
    whose: DataOwner,
    /// The client's bookmarks.
    after: Bookmark,
    /// How far the database had been written when the request came to the sender.
    written: Option<WritePosition>,
    rest: Bytes,
}

/// What only a run needs.
#[derive(Serialize, Deserialize)]
struct RunPart<'a> {
    freshness: Freshness,
    hints: Hints,
    traceparent: Option<&'a str>,
    session: Option<SessionTag>,
    run_ms_max: Option<Millis>,
    ends_with_client: bool,
    #[serde(borrow)]
    query: SentQuery<'a>,
    /// The sender's reading of the statement, so that the asked node need not lex it again.
    reading: Option<PeerReading<'a>>,
}

/// Writes a client's request for its owner. With `near_hits`, which only a plain request may have, the answer may
/// bring a near copy.
#[must_use]
pub fn encode_ask(
    (ask, hasher): (&Ask, &KeyHasher),
    left_ms: Millis,
    (epoch, whose): (RingEpoch, DataOwner),
    near_hits: Option<u32>,
) -> Bytes {
    debug_assert!(!ask.is_forwarded, "I8: a forwarded request is written for another hop");
    let is_plain = ask.freshness.is_plain();
    let near_hits = near_hits.filter(|_| is_plain);
    let mut head = Vec::with_capacity(256 + ask.query.statement.len() + ask.query.params.len());
    head.extend_from_slice(&[WIRE_VERSION, KIND_ASK]);
    head.extend_from_slice(&ask.query.key.0);
    head.extend_from_slice(&epoch.0.to_be_bytes());
    head.extend_from_slice(&left_ms.0.to_be_bytes());
    head.push(ask.rendering.0);
    let flags = [
        (is_plain, PLAIN),
        (near_hits.is_some(), NEAR),
        (ask.freshness.may_write, MAY_WRITE),
        (!ask.bookmarks.is_empty(), AFTER),
        (ask.written.is_some(), WRITTEN),
    ];
    head.push(flags.into_iter().filter(|(is_set, _)| *is_set).map(|(_, flag)| flag).sum());
    whose.write(&mut head);
    if let Some(hits) = near_hits {
        head.extend_from_slice(&hits.to_be_bytes());
    }
    if !ask.bookmarks.is_empty() {
        ask.bookmarks.write(&mut head);
    }
    if let Some(written) = ask.written {
        written.write(&mut head);
    }
    let rest = RunPart {
        freshness: ask.freshness,
        hints: ask.hints,
        traceparent: ask.traceparent.as_deref(),
        session: ask.session,
        run_ms_max: ask.run_ms_max,
        ends_with_client: ask.client.is_some(),
        query: SentQuery::of(&ask.query),
        reading: ask.query.to_tell(hasher),
    };
    append(head, &rest).into()
}

pub(super) fn read_ask(head: &[u8], bytes: &Bytes) -> Result<ForwardedAsk, BadMessage> {
    let mut head = Head(head);
    let key = QueryKey(head.take()?);
    let epoch = RingEpoch(u64::from_be_bytes(head.take()?));
    let left_ms = Millis(u64::from_be_bytes(head.take()?));
    let [rendering, flags] = head.take()?;
    let has = |flag| flags & flag != 0;
    if flags > PLAIN + NEAR + MAY_WRITE + AFTER + WRITTEN || has(NEAR) && !has(PLAIN) {
        return Err(BadMessage::Form("flags"));
    }
    let whose = DataOwner::read(&mut head.0).ok_or(BadMessage::Form("database"))?;
    let near_hits = if has(NEAR) { Some(u32::from_be_bytes(head.take()?)) } else { None };
    let after = if has(AFTER) { Bookmark::read(&mut head.0) } else { Some(Bookmark::NONE) };
    let after = after.ok_or(BadMessage::Form("bookmarks"))?;
    let written = match has(WRITTEN) {
        true => Some(WritePosition::read(&mut head.0).ok_or(BadMessage::Form("mark"))?),
        false => None,
    };
    Ok(ForwardedAsk {
        key,
        epoch,
        left_ms,
        rendering: RenderingId(rendering),
        is_plain: has(PLAIN),
        may_write: has(MAY_WRITE),
        near_hits,
        whose,
        after,
        written,
        rest: bytes.slice_ref(head.0),
    })
}

struct Head<'a>(&'a [u8]);

impl Head<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], BadMessage> {
        let (head, tail) = self.0.split_first_chunk::<N>().ok_or(BadMessage::Form("cut"))?;
        self.0 = tail;
        Ok(*head)
    }
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
    pub fn whose(&self) -> DataOwner {
        self.whose
    }

    /// The client's bookmarks.
    #[must_use]
    pub fn after(&self) -> &Bookmark {
        &self.after
    }

    /// How far the database had been written when the request came to the sender.
    #[must_use]
    pub fn written(&self) -> Option<WritePosition> {
        self.written
    }

    /// Reads the rest: the request as if it had come from a client. Only its deadline counts from `now` on this node's
    /// clock.
    ///
    /// # Errors
    /// [`BadMessage`], in particular [`BadMessage::Key`] when the key is not the query's.
    pub fn read(&self, hasher: &KeyHasher, allowed: &Allowed, now: MonoTime) -> Result<Ask, BadMessage> {
        let facts = |_: &Arc<str>, text: &Arc<str>| Arc::new(TextFacts::of(Arc::clone(text)));
        self.read_with(&Lexicon { hasher, allowed, facts: &facts, on_lexed: &|| {} }, now)
    }

    /// As [`ForwardedAsk::read`], on a node that knows texts.
    ///
    /// # Errors
    /// As [`ForwardedAsk::read`].
    pub fn read_with(&self, lexicon: &Lexicon<'_>, now: MonoTime) -> Result<Ask, BadMessage> {
        let rest: RunPart<'_> = from_bytes(&self.rest)?;
        let parts = rest.query.parts(|params| self.rest.slice_ref(params));
        Ok(Ask {
            query: told_query(parts, rest.reading.as_ref(), &self.key, lexicon)?,
            rendering: self.rendering,
            freshness: rest.freshness,
            hints: rest.hints,
            mode: AccessMode::Read,
            bypass: None,
            bookmarks: self.after.clone(),
            written: self.written,
            deadline: now + self.left_ms,
            run_ms_max: rest.run_ms_max,
            traceparent: rest.traceparent.map(str::to_owned),
            is_forwarded: true,
            metadata: None,
            live: None,
            client: rest.ends_with_client.then(CancellationToken::new),
            session: rest.session,
        })
    }
}
