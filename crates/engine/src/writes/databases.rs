//! Finds out which database a name leads to at this node's Neo4j, before anything is taken from elsewhere: an entry of the store, or a
//! former owner's copy. What belongs to another database is no answer here (`core::written::KnownDatabase`, `cache::databases`).
//!
//! A run tells it by the way. A node that has run nothing yet asks Neo4j once for each name, with an empty transaction. If Neo4j does
//! not answer, the store's word counts: what a node with the same `origin.uri` has said last. Schedule:
//!   Neo4j is away · a node starts, and finds an entry in Redis · Redis knows the database for the node's `origin.uri`, and the entry is
//!   of that database: it is served · Neo4j is back, and the next run shows another database: all copies are forgotten.
//!
//! An entry can also show that ids have gone back while no node looked (a dump was restored). Schedule:
//!   an entry was read at 100 · all nodes are stopped · Neo4j is restored to 40 · a node starts, and hears 40 · it finds the entry, and
//!   asks again: 100 is not there.

use std::collections::BTreeMap;
use std::sync::Arc;

use hopcache_core::bookmark::{DatabaseUuid, Position, TransactionId};
use hopcache_core::key::DatabaseTag;
use hopcache_core::lease::StoredEntry;
use hopcache_core::limits::{
    KNOW_DATABASE_AGAIN_MS, KNOW_DATABASE_MS_MAX, REMEMBER_AGAIN_MS, REMEMBER_TRIES_MAX,
    WRITTEN_DATABASES_MAX,
};
use hopcache_core::time::{Millis, MonoTime};
use hopcache_core::write_position::{KnownDatabase, NameChange, WriteEvent, WritePosition, WriteRecord};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::cache::copy::{MemoryCopy, SharedCopy};
use crate::model::ask::Query;
use crate::model::event::InvalidationWord;
use crate::model::ports::{Store, WriteOf};
use crate::writes::Writes;
use crate::writes::runs::asker;

/// Questions for the databases behind names.
#[derive(Default)]
pub(super) struct DatabaseQuestions(Mutex<BTreeMap<DatabaseTag, Question>>);

/// The last question for a name.
struct Question {
    asked: MonoTime,
    /// Cancelled when the question has ended. (Its waiters are woken in their order; those of a `watch` channel by chance.)
    ended: CancellationToken,
    /// An entry has shown that ids have gone back.
    was_back: bool,
}

/// Why a stored entry is no copy for its query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unfit {
    /// Its bytes are none of this cluster's.
    Corrupt,
    /// It is of another database than this node's Neo4j has by its name, or of a transaction that the database has lost.
    OfAnother,
}

impl Writes {
    /// A stored entry as a copy, if it is of the database that its query names here. `asked` and `held` as in
    /// [`Cache::decode`](crate::cache::Cache).
    pub(crate) async fn take_stored(
        self: &Arc<Self>,
        query: &Query,
        stored: &StoredEntry,
        asked: MonoTime,
        held: Option<&MemoryCopy>,
    ) -> Result<SharedCopy, Unfit> {
        self.know(query).await;
        let copy = self.own_copy(query, stored, asked, held).await?;
        if self.is_lost(query, &copy).await {
            return Err(Unfit::OfAnother);
        }
        if self.lease_ms().is_some() {
            self.saw_reader(query);
        }
        Ok(copy)
    }

    /// As [`Writes::take_stored`], without a question, which might log on: no client waits for it. What would have to be asked about is
    /// not taken.
    pub(crate) async fn take_unasked(
        &self,
        query: &Query,
        stored: &StoredEntry,
        asked: MonoTime,
        held: Option<&MemoryCopy>,
    ) -> Result<SharedCopy, Unfit> {
        let copy = self.own_copy(query, stored, asked, held).await?;
        if self.may_be_lost(query, &copy) { Err(Unfit::OfAnother) } else { Ok(copy) }
    }

    async fn own_copy(
        &self,
        query: &Query,
        stored: &StoredEntry,
        asked: MonoTime,
        held: Option<&MemoryCopy>,
    ) -> Result<SharedCopy, Unfit> {
        if self.cache.is_anothers(query, stored) {
            return Err(Unfit::OfAnother);
        }
        self.cache.decode(query, stored, asked, held).await.ok_or(Unfit::Corrupt)
    }

    fn may_be_lost(&self, query: &Query, copy: &MemoryCopy) -> bool {
        let (name, read_started) = (query.tags.database(), copy.read_started());
        copy.range().is_some_and(|range| self.cache.write_positions().may_be_lost(name, range, read_started))
    }

    /// Completes when this node knows which database the query's name leads to, or cannot find out now.
    pub(crate) async fn know(self: &Arc<Self>, query: &Query) {
        let name = query.tags.database();
        if self.cache.write_positions().known(name).is_some_and(|known| known.is_confirmed) {
            return;
        }
        if let Some(ended) = self.question(query) {
            ended.cancelled().await;
        }
    }

    /// The question under way, or a new one. `None`: the last one has ended not long ago, without an answer of Neo4j.
    fn question(self: &Arc<Self>, query: &Query) -> Option<CancellationToken> {
        let (name, now) = (query.tags.database(), self.context.now());
        let mut questions = self.asking.0.lock();
        let last = questions.get(&name);
        if let Some(last) = last {
            if !last.ended.is_cancelled() {
                return Some(last.ended.clone());
            }
            if now.since(last.asked) < Millis(KNOW_DATABASE_AGAIN_MS) {
                return None;
            }
        }
        let was_back = last.is_some_and(|last| last.was_back);
        if last.is_none() && questions.len() >= WRITTEN_DATABASES_MAX {
            questions.pop_first();
        }
        let ended = CancellationToken::new();
        questions.insert(name, Question { asked: now, ended: ended.clone(), was_back });
        drop(questions);
        // Its own task: whoever asks first may be dropped, and others wait for the answer.
        let (writes, of, asking) = (Arc::clone(self), asker(query), ended.clone().drop_guard());
        self.context.spawn(async move {
            let _asking = asking;
            writes.find_out(name, &of).await;
        });
        Some(ended)
    }

    async fn find_out(self: &Arc<Self>, name: DatabaseTag, of: &WriteOf) {
        let before = self.seen_by(name);
        if let Some(found) = self.ask_whose(name, of).await {
            // A node that has only hits watches as well as any other.
            self.watching.may_ask_as(name, of);
            self.learned(name, found);
            self.compare_with(name, &before, found);
        } else if let Ok(Some(database)) =
            self.store.remember(self.cluster, (self.cache.server(), name), None).await
        {
            self.cache.learn(name, KnownDatabase { database, is_confirmed: false, newest: None });
        }
    }

    /// What this node's Neo4j says about a name; `None` if it does not answer.
    async fn ask_whose(&self, name: DatabaseTag, of: &WriteOf) -> Option<KnownDatabase> {
        if !self.origin.is_reachable() {
            return None;
        }
        let (asked, within) = (self.context.now(), Millis(KNOW_DATABASE_MS_MAX));
        let answer = tokio::select! {
            biased;
            answer = self.origin.newest(of, within) => answer,
            () = self.context.sleep(within) => return None,
        };
        Some(match answer.ok()? {
            Some(newest) => KnownDatabase::by_answer(newest, asked),
            // It tells no transactions.
            None => KnownDatabase {
                database: DatabaseUuid::standing_in(self.cache.server(), name),
                is_confirmed: true,
                newest: None,
            },
        })
    }

    /// This node's Neo4j has shown which database a name leads to. The store remembers it for nodes that start while Neo4j is away.
    pub(super) fn learned(self: &Arc<Self>, name: DatabaseTag, found: KnownDatabase) {
        // Neo4j has carried out administration in `system`, whatever the client has named.
        let is_elsewhere = found.database == DatabaseUuid::SYSTEM && name != self.system;
        if is_elsewhere || self.cache.learn(name, found) == NameChange::Nothing {
            return;
        }
        let (writes, at) = (Arc::clone(self), (self.cache.server(), name));
        self.context.spawn_until_handed_on(async move {
            for again in 0..REMEMBER_TRIES_MAX {
                if writes.store.remember(writes.cluster, at, Some(found.database)).await.is_ok() {
                    return;
                }
                writes.context.sleep(Millis(REMEMBER_AGAIN_MS << again)).await;
            }
        });
    }

    /// A run by this name that began at `began` has ended at this position.
    pub(super) fn learned_by_run(self: &Arc<Self>, name: DatabaseTag, to: Position, began: MonoTime) {
        let known = self.cache.write_positions().known(name).filter(|known| known.database == to.database);
        if !known.is_some_and(|known| known.is_confirmed && known.newest.is_some()) {
            self.learned(name, KnownDatabase::by_answer(to, began));
        }
    }

    /// The latest positions that this node has heard of, of each database that has this name.
    fn seen_by(&self, name: DatabaseTag) -> Vec<WritePosition> {
        let later = TransactionId(u64::MAX);
        let of = |database| self.seen_of(name, Position { database, id: later });
        self.cache.write_positions().databases_of(name).into_iter().filter_map(of).collect()
    }

    /// Ids have gone back if a node has told of a later one before Neo4j was asked.
    fn compare_with(self: &Arc<Self>, name: DatabaseTag, before: &[WritePosition], found: KnownDatabase) {
        let Some((id, _)) = found.newest else { return };
        let newest = Position { database: found.database, id };
        let before = before.iter().find(|before| before.database() == found.database);
        let (written, is_back) = self.cache.write_positions().after_asking(before.copied(), newest);
        if is_back {
            self.went_back(name, written);
        }
    }

    /// Whether a copy of a stored entry has seen a transaction that its database does not have any more.
    async fn is_lost(self: &Arc<Self>, query: &Query, copy: &MemoryCopy) -> bool {
        let name = query.tags.database();
        let Some(range) = copy.range() else { return false };
        if !self.may_be_lost(query, copy) {
            return false;
        }
        // Its run may have been under way when Neo4j was asked last.
        let Some(found) = self.ask_whose(name, &asker(query)).await else { return true };
        self.learned(name, found);
        let (to, Some((id, _))) = (range.to(), found.newest) else { return true };
        if found.database != to.database || id >= to.id {
            return found.database != to.database;
        }
        let is_news = {
            let mut questions = self.asking.0.lock();
            questions.get_mut(&name).is_some_and(|last| !std::mem::replace(&mut last.was_back, true))
        };
        if is_news {
            let before = WritePosition::at(self.epoch_of(to.database), to);
            let (written, _) = self.cache.write_positions().after_asking(Some(before), Position { id, ..to });
            self.went_back(name, written);
        }
        true
    }

    /// Ids of a database have gone back to this mark: its entries are purged.
    fn went_back(self: &Arc<Self>, name: DatabaseTag, written: WritePosition) {
        self.tallies.forget_known(name);
        if self.lease_ms().is_none() {
            return self.purge_names(written);
        }
        let event = [WriteEvent::from(WriteRecord::of_all(name, written))];
        self.note(&event, InvalidationWord::ForeignWrite);
        self.purge_names(written);
        let writes = Arc::clone(self);
        self.context.spawn(async move { writes.tell(&event).await });
    }
}
