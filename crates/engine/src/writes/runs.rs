//! What a run has to carry, and what its end shows.
//!
//! A run carries a transaction as a bookmark: its result is no older. An entry is ended by marks that its run did not carry,
//! and is proved only if its run carried the last foreign transaction (`core::proof`). So a run carries the latest that this
//! node knows of, whoever has written it.

use std::sync::Arc;

use hopcache_core::bookmark::ReadRange;
use hopcache_core::limits::WRITTEN_ASK_MS_MAX;
use hopcache_core::time::{Millis, MonoTime};
use hopcache_core::write_position::{Change, WriteEvent, WritePosition, WriteRecord};

use crate::model::ask::Query;
use crate::model::event::InvalidationWord;
use crate::model::ports::WriteOf;
use crate::writes::Writes;

/// With whose credentials the origin is asked for the newest transaction of a query's database.
pub(super) fn asker(query: &Query) -> WriteOf {
    let Query { database, identity, impersonated, .. } = query;
    WriteOf::question(
        Arc::clone(database),
        Arc::clone(identity),
        impersonated.clone(),
        Millis(WRITTEN_ASK_MS_MAX),
    )
}

/// The later of two marks. Of two databases the first one's.
pub(super) fn later(known: Option<WritePosition>, other: Option<WritePosition>) -> Option<WritePosition> {
    match (known, other) {
        (Some(known), Some(other))
            if known.database() == other.database() && !known.is_at_or_after(&other) =>
        {
            Some(other)
        }
        (known, other) => known.or(other),
    }
}

impl Writes {
    /// The mark that a run has to carry which begins now. `asked` is its request's.
    ///
    /// The mark of now, since the wait for the lease may have been long. Or the request's, which may be later:
    ///   node 1 writes, and tells node 0 · a request at node 1 is forwarded to node 0, with the mark · the telling is slow.
    /// Or the last foreign transaction that a report names: nobody waits until a node has heard its mark.
    pub(crate) fn to_be_carried(&self, query: &Query, asked: Option<WritePosition>) -> Option<WritePosition> {
        let name = query.tags.database();
        let known = later(self.cache.write_positions().of(name), asked);
        let foreign = || self.cache.proofs().foreign(name, self.cache.write_positions().database_of(name)?);
        later(known, foreign())
    }

    /// A run that began at `began` has ended with this range. `written` is the mark that it had to carry.
    ///
    /// A mark that it did not carry, although the adapter has asked the server, is unsettled, or of ids that have gone
    /// back since.
    pub(crate) fn saw_run(
        self: &Arc<Self>,
        query: &Query,
        written: Option<WritePosition>,
        (range, began): (&ReadRange, MonoTime),
    ) {
        let name = query.tags.database();
        self.learned_by_run(name, range.to(), began);
        if self.lease_ms().is_none() {
            return;
        }
        self.watching.may_ask_as(name, &asker(query));
        self.saw_reader(query);
        let database = range.to().database;
        let Some(before) =
            written.filter(|written| written.database() == database && !written.is_seen_by(range))
        else {
            return;
        };
        // The range's end, and not what the run carried: a write of another node that was answered meanwhile is no later.
        //   the mark is (4, 100) by mistake · a run carries 26 · a write ends as 27, and its mark is (4, 27) · the run ends at
        //   27, and begins epoch 5: at (5, 26) the write would be forgotten.
        let (written, is_back) = self.cache.write_positions().after_asking(Some(before), range.to());
        let event = [WriteEvent::from(WriteRecord::of_all(name, written))];
        if self.note(&event, InvalidationWord::OwnWrite) == Change::Known {
            return;
        }
        if is_back {
            self.purge_names(written);
        }
        let writes = Arc::clone(self);
        self.context.spawn(async move {
            writes.tell(&event).await;
        });
    }

    /// Another node has answered a client of this one, with the client's credentials. They are good for questions too, if this
    /// node has no others: it may be told of writes (`invalidated`), or have to watch.
    pub(crate) fn saw_answer(&self, query: &Query) {
        let name = query.tags.database();
        if self.lease_ms().is_some() && self.watching.asker(name).is_none() {
            self.watching.may_ask_as(name, &asker(query));
        }
    }
}
