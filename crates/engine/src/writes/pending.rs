//! A write that a front, or the request path, has sent to the origin, and its end. All fronts use this one interface:
//!
//! ```text
//! let write = engine.writes().begin(WriteOf { database, identity, impersonated, timeout_ms, touched, … });
//! … the statement, or COMMIT, goes to the origin …
//! write.narrowed(touched)             its summary shows that it has touched less
//! write.has_changed(net)              its summaries show that it has certainly changed something
//! write.committed(position).await     it ended well; then the client is answered
//! write.changed_nothing()             the summary shows no updates, or a rollback
//! write.shows_rows().await            its client gets rows before its end: they may show what it has committed so far
//! write.refused(code).await           the origin refused or failed it, and said so
//! write.in_doubt().await              its answer was lost, or it timed out
//! write.failed(error).await           either of these
//! ```
//!
//! When one of the futures is done, no node that is in touch serves an entry from before the write that depends on what it
//! has touched. Their work belongs to this node, not to the caller: a client that leaves, or a future that is dropped,
//! changes nothing. A pending write that is dropped counts as in doubt.

use std::sync::Arc;

use hopcache_core::bookmark::Position;
use hopcache_core::key::DatabaseTag;
use hopcache_core::result::MarkerEffect;
use hopcache_core::tags::Touched;
use hopcache_core::write_position::WritePosition;

use crate::model::ports::{OriginError, OriginFault, WriteOf};
use crate::writes::marker::touched_with;
use crate::writes::parts::OpenParts;
use crate::writes::tallies::TalliedWrite;
use crate::writes::{NetChange, Writes};

/// A write that has been sent, or is about to be.
#[must_use = "a pending write that is dropped counts as in doubt"]
pub struct PendingWrite {
    /// `None` when it has ended, and if writes end no entries (`freshness.mode = "ttl"`).
    open: Option<OpenWrite>,
}

/// A write that has not ended.
pub(super) struct OpenWrite {
    pub(super) writes: Arc<Writes>,
    pub(super) of: WriteOf,
    pub(super) name: DatabaseTag,
    /// The mark of its database when it was sent.
    pub(super) before: Option<WritePosition>,
    /// The latest id of its database that was known when it was sent.
    pub(super) known: Option<WritePosition>,
    /// Whether it has certainly changed something.
    pub(super) has_changed: bool,
    /// Its place in this node's tally.
    pub(super) tallied: TalliedWrite,
    /// What it commits before its end is told meanwhile.
    pub(super) parts: Option<OpenParts>,
    /// Whether it is one statement of an explicit transaction.
    pub(super) is_within: bool,
}

/// How a write ended.
#[derive(Debug, Clone)]
pub(super) enum WriteEnd {
    /// Well, at this position or before it.
    Committed(Option<Position>),
    /// The origin said that it failed, with this code.
    Refused(String),
    /// Nobody knows. It may still be committed.
    InDoubt,
}

impl PendingWrite {
    pub(super) fn new(open: Option<OpenWrite>) -> Self {
        Self { open }
    }

    /// For a statement that calls a procedure inside an explicit transaction. When the statement ends, the node tells only what the procedure
    /// has committed by itself. COMMIT tells the rest.
    pub fn within_a_transaction(mut self) -> Self {
        if let Some(open) = &mut self.open {
            open.is_within = true;
        }
        self
    }

    /// Its summary shows that it has touched no more than this. Only a write that ended well has a summary: of any other, parts
    /// that are not counted may have been committed.
    pub fn narrowed(mut self, touched: Touched) -> Self {
        if let Some(open) = &mut self.open
            && !open.writes.has_triggers
        {
            open.of.touched = touched;
        }
        self
    }

    /// What the summaries of its transaction prove to have changed: of all its statements, so `None` if one is not known.
    pub fn has_changed(mut self, net: Option<NetChange>) -> Self {
        if let Some(open) = &mut self.open {
            open.has_changed = net.is_some_and(NetChange::is_certain);
        }
        self
    }

    /// What its transaction did to the marker of writes. To be said after [`PendingWrite::narrowed`] and [`PendingWrite::has_changed`].
    pub fn with_marker(mut self, marked: Option<MarkerEffect>) -> Self {
        if let Some(open) = &mut self.open {
            let touched = std::mem::replace(&mut open.of.touched, Touched::Anything);
            open.of.touched = touched_with(touched, marked);
            open.has_changed |= marked == Some(MarkerEffect::Counted);
        }
        self
    }

    /// It has changed nothing: its summary shows that, it was rolled back, or it was never sent.
    pub fn changed_nothing(mut self) {
        if let Some(open) = self.open.take() {
            open.tallied.uncounted();
        }
    }

    /// It ended well. `position` is of the bookmark that came with its end; without one the origin is asked.
    pub async fn committed(self, position: Option<Position>) {
        self.end(WriteEnd::Committed(position)).await;
    }

    /// The origin refused it, or failed it, with this code (`refusals`).
    pub async fn refused(self, code: &str) {
        self.end(WriteEnd::Refused(code.to_owned())).await;
    }

    /// It did not end well.
    pub async fn failed(self, error: &OriginError) {
        match &error.kind {
            _ if !error.was_sent => self.changed_nothing(),
            OriginFault::Failed(said) | OriginFault::Transient(said) | OriginFault::Unauthorized(said) => {
                self.refused(&said.code).await;
            }
            _ => self.in_doubt().await,
        }
    }

    /// Whether it may commit parts of it before its end.
    #[must_use]
    pub fn has_parts(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.parts.is_some())
    }

    /// Its client is about to get rows of it. Completes when no node in touch serves an entry from before what they may show.
    pub async fn shows_rows(&self) {
        if let Some(parts) = self.open.as_ref().and_then(|open| open.parts.as_ref()) {
            parts.tell().await;
        }
    }

    /// Its answer was lost, or its time was over. It may have been committed, or may be later.
    pub async fn in_doubt(self) {
        self.end(WriteEnd::InDoubt).await;
    }

    async fn end(mut self, end: WriteEnd) {
        let Some(open) = self.open.take() else { return };
        let context = open.writes.context().clone();
        // Its own task: the caller may be dropped at any await, and the write still has to be told.
        let _ = context.spawn(async move { open.end(end).await }).await;
    }
}

impl Drop for PendingWrite {
    fn drop(&mut self) {
        if let Some(open) = self.open.take() {
            let context = open.writes.context().clone();
            context.spawn(async move { open.end(WriteEnd::InDoubt).await });
        }
    }
}
