//! What a write commits before its end: batches (`CALL { … } IN TRANSACTIONS`), and transactions of procedures.
//!
//! Such a statement may run for minutes, and each of its parts is visible at Neo4j from then on. So while it runs this node asks
//! Neo4j for its newest transaction, and tells what the statement touches at that position, as for a write that has ended:
//! - every [`WRITTEN_PARTS_MS`], so that no reader gets what is older than that,
//! - before a front passes on a row of it: whoever has seen a part gets nothing older.
//!
//! Nothing is told if no transaction has been committed since the last telling. So a statement costs a question of 0.2 ms and at
//! most one telling in that time, whatever the number of its batches is, and between two tellings its readers are hits.
//!
//! *Instead of*: its tags are ended for as long as it runs, by a mark that is later than every id. Each next run would settle such a
//! mark, by another numbering of the ids, which ends all of the database. It would need an end when this node dies. And a procedure
//! that only reads, for ten minutes, would keep everybody from the cache.

use std::sync::Arc;

use hopcache_core::bookmark::Position;
use hopcache_core::key::DatabaseTag;
use hopcache_core::limits::WRITTEN_PARTS_MS;
use hopcache_core::time::Millis;
use hopcache_core::write_position::WritePosition;
use parking_lot::Mutex;
use tokio_util::task::AbortOnDropHandle;

use crate::model::event::InvalidationWord;
use crate::model::ports::{Parts, WriteOf};
use crate::writes::Writes;
use crate::writes::asking::{Newest, NewestAnswer};
use crate::writes::tallies::{SuspectedRead, TalliedWrite};

/// The parts of a write that has not ended, and the task that tells them.
pub(super) struct OpenParts {
    parts: Arc<CommittedParts>,
    _telling: AbortOnDropHandle<()>,
}

struct CommittedParts {
    writes: Arc<Writes>,
    of: WriteOf,
    name: DatabaseTag,
    /// No part is known to be committed after this one and untold.
    told: Mutex<Option<Position>>,
    /// Whether the statement writes; `None` until Neo4j is asked.
    does_write: Mutex<Option<bool>>,
    /// Its place in this node's tally.
    tallied: SuspectedRead,
}

impl OpenParts {
    /// `known` is the latest transaction that this node knows of before the write is sent. `None` for a write without parts.
    pub(super) fn begin(
        writes: &Arc<Writes>,
        (of, name): (&WriteOf, DatabaseTag),
        known: Option<WritePosition>,
        tallied: &TalliedWrite,
    ) -> Option<Self> {
        if of.parts == Parts::None || of.touched.is_nothing() {
            return None;
        }
        let told = known.and_then(|known| known.position());
        let parts = Arc::new(CommittedParts {
            writes: Arc::clone(writes),
            of: of.clone(),
            name,
            told: Mutex::new(told),
            does_write: Mutex::default(),
            tallied: tallied.suspected_read(),
        });
        let broadcast = Arc::clone(&parts);
        let broadcast = writes.context().spawn(async move { broadcast.tell_until_ended().await });
        Some(Self { parts, _telling: AbortOnDropHandle::new(broadcast) })
    }

    /// Completes when no node in touch serves an entry from before the parts that are committed now.
    pub(super) async fn tell(&self) {
        let CommittedParts { writes, of, name, .. } = &*self.parts;
        if !self.parts.tell().await {
            let unknown = NewestAnswer { before: None, newest: Newest::Unknown };
            writes.tell_newest((of, *name), unknown, InvalidationWord::OwnWrite).await;
        }
    }
}

impl CommittedParts {
    async fn tell_until_ended(&self) {
        loop {
            self.writes.context().sleep(Millis(WRITTEN_PARTS_MS)).await;
            // Where Neo4j does not say, the next look or the end of the write tells.
            self.tell().await;
            if *self.does_write.lock() == Some(false) {
                return;
            }
        }
    }

    /// Tells what was committed since the last telling. Whether Neo4j has said what that is.
    async fn tell(&self) -> bool {
        let asked = self.writes.ask_newest(&self.of, self.name).await;
        let newest = match &asked.newest {
            Newest::At(newest) => *newest,
            Newest::Unknown => return false,
            // The end of the write decides.
            Newest::NoDatabase | Newest::Forbidden | Newest::Untold => return true,
        };
        // A graph that the statement names by itself has transactions of its own.
        if !self.of.may_name_graph && *self.told.lock() == Some(newest) {
            return true;
        }
        if !self.does_write().await {
            return true;
        }
        if self.of.may_name_graph {
            self.writes.tell_elsewhere(self.name, &self.of.touched).await;
        }
        self.writes.tell_newest((&self.of, self.name), asked, InvalidationWord::OwnWrite).await;
        let mut told = self.told.lock();
        if told.is_none_or(|before| before.database != newest.database || before.id < newest.id) {
            *told = Some(newest);
        }
        true
    }

    async fn does_write(&self) -> bool {
        let known = *self.does_write.lock();
        if let Some(known) = known {
            return known;
        }
        let does_write = self.writes.may_write(&self.of, None).await;
        *self.does_write.lock() = Some(does_write);
        if !does_write {
            self.tallied.reads_only();
            // Other writes may have waited for it.
            self.writes.settle_soon(self.name);
        }
        does_write
    }
}
