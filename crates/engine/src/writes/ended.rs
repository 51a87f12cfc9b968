//! From the end of a write to the mark that it leaves.
//!
//! A write marks what it has touched (`WriteOf::touched`), or its whole database where that is not known.
//!
//! A write that ended well has told its position. After any other end Neo4j is asked for its newest transaction: whatever
//! of the write was committed has an id that is no later. If Neo4j does not say, the mark is unsettled, and no entry of
//! the database is served, except as stale-if-error. The next run asks Neo4j and settles it.
//!
//! A write whose answer was lost may be committed later:
//!   a COMMIT is sent · its connection breaks · Neo4j is asked, and tells 40 · Neo4j commits it as 41.
//! So Neo4j is asked again each second, until its own timeout for the write is over.
//!
//! A write that names a graph by itself (`USE`) may have written in any database, and its bookmark tells only that of its
//! client's. So the marks of all other databases become unsettled. If the write has ended, all entries are purged too:
//! another node may have entries of databases that this node does not know. While it is in doubt they stay, for
//! stale-if-error. So it is with a change of users or rights: while Neo4j is away nobody can say whether it was carried out.
//!
//! Only what was written ends anything: a failure that proves that nothing was, ends nothing (`refusals`).

use std::sync::Arc;

use futures_util::future::join_all;
use hopcache_core::bookmark::{DatabaseUuid, Position};
use hopcache_core::key::DatabaseTag;
use hopcache_core::limits::{WRITTEN_ASK_AGAIN_MS, WRITTEN_ASK_BEYOND_MS};
use hopcache_core::proof::CountedWrite;
use hopcache_core::tags::{Tag, Touched};
use hopcache_core::time::{Millis, MonoTime};
use hopcache_core::write_position::{Change, WriteEvent, WritePosition};

use crate::model::event::{Event, InvalidationWord};
use crate::model::ports::{Scope, WriteBegan, WriteOf};
use crate::writes::Writes;
use crate::writes::asking::{Newest, NewestAnswer};
use crate::writes::pending::{OpenWrite, WriteEnd};
use crate::writes::recent::ToldBy;
use crate::writes::refusals::Fate;

/// A write whose answer was lost.
pub(super) struct PendingRecheck {
    of: WriteOf,
    /// After this time Neo4j cannot commit it any more.
    until: MonoTime,
}

impl OpenWrite {
    /// Completes when no node that is in touch serves an entry from before the write.
    pub(super) async fn end(self, end: WriteEnd) {
        let Self { writes, mut of, name, before, known, has_changed, tallied, parts, is_within } = self;
        if is_within {
            if let Some(parts) = parts {
                parts.tell().await;
            }
            return tallied.uncounted();
        }
        // From here on its end is told.
        drop(parts);
        let end = match writes.fate_of(&of, end).await {
            Fate::ChangedNothing => return tallied.uncounted(),
            Fate::RolledBack => {
                writes.end_tokens(&of, name).await;
                return tallied.uncounted();
            }
            Fate::MayHaveChanged(end) => end,
        };
        if of.may_name_graph {
            writes.end_elsewhere(name).await;
        }
        // What is refused has changed no user and no right, whatever a procedure may have committed before.
        // Neo4j carries out administration in `system`, whatever database its client has named: then nothing else was written.
        let is_system = of.database.eq_ignore_ascii_case("system");
        let is_elsewhere = !is_system
            && matches!(&end, WriteEnd::Committed(Some(at)) if at.database == DatabaseUuid::SYSTEM);
        let is_of_rights = of.changes_rights || is_elsewhere || is_system;
        let changes_rights = is_of_rights && !matches!(end, WriteEnd::Refused(_));
        if (of.may_name_graph || changes_rights) && !matches!(end, WriteEnd::InDoubt) {
            writes.purge(&Scope::All).await;
        }
        if changes_rights {
            let position = if let WriteEnd::Committed(position) = end { position } else { None };
            writes.tell_rights(&mut of, name, position).await;
        }
        if is_elsewhere {
            writes.wait_for_untold().await;
            return tallied.uncounted();
        }
        let ended = end.clone();
        let kept = match end {
            WriteEnd::Committed(Some(position)) => {
                let number = tallied.number_if_one().filter(|_| has_changed);
                let count = number.zip(known);
                writes.own_write(&of, (name, count), before, position).await
            }
            WriteEnd::Committed(None) => writes.ask_and_tell((&of, name), InvalidationWord::OwnWrite).await,
            WriteEnd::Refused(_) => writes.ask_of_refused(&of, name).await,
            WriteEnd::InDoubt => {
                writes.ask_again_later(of.clone(), name);
                writes.ask_and_tell((&of, name), InvalidationWord::OwnWrite).await
            }
        };
        if changes_rights {
            writes.wait_for_untold().await;
        }
        // All nodes in touch have heard of it.
        match ended {
            WriteEnd::Committed(_) => {
                writes.watching.may_ask_as(name, &of);
                tallied.committed(kept);
                // What the store has not taken is not known to all.
                if kept.is_some() {
                    writes.settle_soon(name);
                }
            }
            // A write in doubt may still be committed.
            WriteEnd::Refused(_) | WriteEnd::InDoubt => tallied.uncounted(),
        }
    }
}

impl Writes {
    pub(super) async fn own_write(
        self: &Arc<Self>,
        of: &WriteOf,
        (name, count): (DatabaseTag, Option<(u64, WritePosition)>),
        before: Option<WritePosition>,
        position: Position,
    ) -> Option<WritePosition> {
        let (written, is_back) = self.cache.write_positions().after_own_write(before, position);
        let counted = count.and_then(|(number, known)| {
            let after = known.position().filter(|_| known.is_comparable(&written))?.id;
            Some(CountedWrite { number, written, after })
        });
        let of_write = ((of.began.mark(None), written), &of.touched);
        self.note_tell_and_count(name, of_write, (is_back, counted), InvalidationWord::OwnWrite).await
    }

    /// Asks Neo4j for its newest transaction, and tells it. The mark, if the store has it then.
    pub(super) async fn ask_and_tell(
        self: &Arc<Self>,
        (of, name): (&WriteOf, DatabaseTag),
        word: InvalidationWord,
    ) -> Option<WritePosition> {
        let asked = self.ask_newest(of, name).await;
        self.tell_newest((of, name), asked, word).await
    }

    /// As [`Writes::ask_and_tell`], after Neo4j has refused the write. If it refuses this identity even the question, it has carried out
    /// nothing for it, and nothing ends: otherwise anybody without rights could end all entries again and again.
    pub(super) async fn ask_of_refused(
        self: &Arc<Self>,
        of: &WriteOf,
        name: DatabaseTag,
    ) -> Option<WritePosition> {
        match self.ask_newest(of, name).await {
            NewestAnswer { newest: Newest::Forbidden, .. } => None,
            asked => self.tell_newest((of, name), asked, InvalidationWord::OwnWrite).await,
        }
    }

    /// Tells what a write has touched, at what Neo4j has said.
    pub(super) async fn tell_newest(
        self: &Arc<Self>,
        (of, name): (&WriteOf, DatabaseTag),
        NewestAnswer { before, newest }: NewestAnswer,
        word: InvalidationWord,
    ) -> Option<WritePosition> {
        match newest {
            Newest::NoDatabase => return None,
            Newest::At(position) => {
                let (written, is_back) = self.cache.write_positions().after_asking(before, position);
                let of_write = ((of.began.mark(None), written), &of.touched);
                return self.note_and_tell(name, of_write, is_back, word).await;
            }
            Newest::Forbidden | Newest::Unknown => {
                if let Some(written) = self.cache.write_positions().in_doubt(name) {
                    return self
                        .note_and_tell(name, ((None, written), &Touched::Anything), false, word)
                        .await;
                }
            }
            Newest::Untold => {}
        }
        self.purge_name(name).await;
        None
    }

    /// A write may have written in any database: the marks of those that this node knows become unsettled. That of the
    /// write's own name is told apart.
    async fn end_elsewhere(self: &Arc<Self>, own: DatabaseTag) {
        let positions = self.cache.write_positions();
        let others = positions.names().into_iter().filter(|name| *name != own);
        let unsettled = others.filter_map(|name| Some((name, positions.in_doubt(name)?)));
        let told = unsettled.map(|(name, written)| {
            self.note_and_tell(name, ((None, written), &Touched::Anything), false, InvalidationWord::OwnWrite)
        });
        let _ = join_all(told.collect::<Vec<_>>()).await;
    }

    /// Returns the mark if the store has it then.
    pub(super) async fn note_and_tell(
        self: &Arc<Self>,
        name: DatabaseTag,
        of_write: ((Option<WritePosition>, WritePosition), &Touched),
        is_back: bool,
        word: InvalidationWord,
    ) -> Option<WritePosition> {
        self.note_tell_and_count(name, of_write, (is_back, None), word).await
    }

    /// The same, with the count of a write of this node. This node takes the marks before the count, as others do.
    async fn note_tell_and_count(
        self: &Arc<Self>,
        name: DatabaseTag,
        ((began, written), touched): ((Option<WritePosition>, WritePosition), &Touched),
        (is_back, counted): (bool, Option<CountedWrite>),
        word: InvalidationWord,
    ) -> Option<WritePosition> {
        let event = [self.cache.write_positions().event_of(name, (began, written), touched)];
        let has_place = !self.note(&event, word).is_full();
        if is_back {
            self.purge_names(written);
        }
        if has_place {
            self.cache.hear_counts(self.context.me(), counted.as_slice());
            return self.tell_counted(&event, counted).await.then_some(written);
        }
        // Other nodes may have a place for the mark, and this one may have read by another name.
        tokio::join!(self.purge_name(name), self.tell(&event));
        None
    }

    /// Takes the events of one write. However many tags it has touched, it counts as one.
    pub(super) fn note(&self, events: &[WriteEvent], word: InvalidationWord) -> Change {
        let mut noted = Change::Known;
        for event in events.iter().filter(|event| !event.touched.is_nothing()) {
            self.recheck_other(event);
            let told = match word {
                InvalidationWord::ForeignWrite => ToldBy::Order,
                _ => ToldBy::Write,
            };
            match self.take_told((event, told), Some(self.context.node())) {
                // Entries by other names of the database need the other marks too.
                full @ Change::Full { .. } => noted = full,
                Change::Later if noted == Change::Known => noted = Change::Later,
                Change::Later | Change::Known => {}
            }
            self.unlogged.lock().push(event);
        }
        if noted == Change::Later {
            self.context.note(Event::Invalidation(word));
        }
        noted
    }

    /// For a server that tells no transactions, and for databases beyond the bound: the entries themselves are removed.
    pub(super) async fn purge_name(&self, name: DatabaseTag) {
        self.purge(&Scope::Tag(Tag::Database(name))).await;
    }

    async fn purge(&self, scope: &Scope) {
        // The purge counts itself.
        let _ = self.invalidate.purge_because(scope, InvalidationWord::Emptied).await;
    }

    /// One task for each database asks again, until the last of its lost writes cannot be committed any more.
    fn ask_again_later(self: &Arc<Self>, of: WriteOf, name: DatabaseTag) {
        let beyond = Millis(of.timeout_ms.0.saturating_add(WRITTEN_ASK_BEYOND_MS));
        let until = self.context.now() + beyond;
        let mut rechecks = self.rechecks.lock();
        let is_first = !rechecks.contains_key(&name);
        let recheck = rechecks.entry(name).or_insert(PendingRecheck { of: of.clone(), until });
        recheck.until = recheck.until.max(until);
        let may_name_graph = recheck.of.may_name_graph || of.may_name_graph;
        let changes_rights = recheck.of.changes_rights || of.changes_rights;
        let touched = of.touched.clone().and(&recheck.of.touched);
        let began = if of.began == recheck.of.began { of.began } else { WriteBegan::At(None) };
        recheck.of = WriteOf { may_name_graph, changes_rights, began, touched, ..of };
        drop(rechecks);
        if is_first {
            let writes = Arc::clone(self);
            // A leaving node waits for no write that was lost: its last question is told.
            self.context.spawn_until_handed_on(async move { writes.ask_until_settled(name).await });
        }
    }

    /// Whether no lost write of this name can be committed any more, at a question of `asked`. Then it is forgotten.
    fn is_recheck_over(&self, name: DatabaseTag, asked: MonoTime) -> bool {
        let mut rechecks = self.rechecks.lock();
        let is_over = rechecks.get(&name).is_none_or(|recheck| recheck.until <= asked);
        if is_over {
            rechecks.remove(&name);
        }
        is_over
    }

    async fn ask_until_settled(self: &Arc<Self>, name: DatabaseTag) {
        loop {
            self.context.sleep(Millis(WRITTEN_ASK_AGAIN_MS)).await;
            let asked = self.context.now();
            let Some(of) = self.rechecks.lock().get(&name).map(|recheck| recheck.of.clone()) else { return };
            if of.may_name_graph {
                self.end_elsewhere(name).await;
            }
            self.ask_and_tell((&of, name), InvalidationWord::OwnWrite).await;
            if of.changes_rights && !self.origin.is_reachable() {
                // Its end is told when Neo4j says it. Until then readers get what is cached.
                continue;
            }
            if self.is_recheck_over(name, asked) {
                if of.changes_rights {
                    // It is committed in `system`, if at all, and the question was about another database.
                    self.purge(&Scope::All).await;
                    self.tell_rights(&mut of.clone(), name, None).await;
                }
                return;
            }
        }
    }
}
