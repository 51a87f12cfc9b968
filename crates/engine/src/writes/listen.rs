//! Hearing of writes: from other nodes at once, and from the store with each look, for what could not be told.
//!
//! A look also mends the store. If it lacks a mark that this node has, because it lost its data or because the writing
//! node could not reach it, the mark is put back. So nothing that any node knows is forgotten. A look that finds a mark missing
//! and cannot put it back is no look: a watcher's report by its number would prove to others what the mark ends. Schedule:
//!   A writes while B is stopped · the store loses its data · B looks, and finds no mark · A looks, and cannot put its mark back ·
//!   A's watcher reports by this look · B looks, takes the report, and proves an entry from before the write.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::future::pending;

use hopcache_core::bookmark::DatabaseUuid;
use hopcache_core::key::DatabaseTag;
use hopcache_core::limits::{
    INFORMED_LOOK_MS, INFORMED_MS_MAX, LOOKS_BEHIND_MAX, PAUSE_POLL_RETRY_MS, WHOLE_LOG_TRIES_MAX,
};
use hopcache_core::proof::{PollNumber, Report};
use hopcache_core::tags::Tag;
use hopcache_core::time::Millis;
use hopcache_core::write_position::{EventCursor, Place, WriteEpoch, WriteEvent, WritePosition, WriteRecord};

use crate::model::ports::{Scope, Store, StorePoll};
use crate::peers::message::WriteNews;
use crate::writes::Writes;

/// What the store has shown so far.
#[derive(Default)]
struct StoreView {
    /// The looks of reports; `None` before the first look of this node.
    reports: Option<BTreeMap<(DatabaseTag, DatabaseUuid), PollNumber>>,
    /// Marks that found no place, so that each ends entries once.
    without_place: BTreeMap<Place, WritePosition>,
    /// How far its log of writes was read.
    cursor: Option<EventCursor>,
    /// How many looks before the first one have failed.
    failed: u64,
    /// Whether it has begun another log, which lacks the writes that this node has told before.
    has_another_log: bool,
}

impl StoreView {
    /// From where on the log is read. A first look reads all of it. Where that takes too long, the marks have to do: a place of no log.
    fn since(&self) -> Option<EventCursor> {
        self.cursor.or_else(|| (self.failed >= WHOLE_LOG_TRIES_MAX).then(EventCursor::default))
    }

    fn read_up_to(&mut self, cursor: EventCursor) {
        self.has_another_log |= self.cursor.is_some_and(|before| before.log != cursor.log);
        self.cursor = Some(cursor);
    }
}

impl Writes {
    /// Looks for writes at the store for ever.
    pub(crate) async fn follow(&self) -> Infallible {
        let Some(lease_ms) = self.lease_ms() else { return pending().await };
        let lease = self.cache.lease();
        let mut shown = StoreView::default();
        loop {
            let began = self.context.now();
            let listener = (self.context.node(), lease_ms);
            let polled = self.store.hear_written(self.cluster, listener, shown.since()).await;
            let mut has_heard = false;
            if let Ok(StorePoll { records, poll, reports, events, floor, cursor }) = polled {
                self.take_all((&records, events.as_deref()), &mut shown);
                // Writes that the log has dropped: until now this node may have lacked them as well.
                floor.iter().for_each(|record| self.cache.write_positions().unrefine(record.written));
                shown.read_up_to(cursor);
                self.compare_reports(&reports, &mut shown);
                if self.mend(&records, &mut shown).await {
                    has_heard = true;
                    self.cache.take_reports(poll, (began, self.context.now()), &reports);
                    if !lease.is_held(self.context.now()) {
                        self.was_out_of_touch();
                    }
                    lease.polled(began);
                }
            }
            if !has_heard {
                lease.missed(began);
                shown.failed += u64::from(shown.cursor.is_none());
            }
            // Requests that wait have asked already. To look at once would be a busy loop while the store is away.
            let is_waited_for = !has_heard && lease.is_waited_for(self.context.now());
            let pause = if is_waited_for { Millis(PAUSE_POLL_RETRY_MS) } else { Millis(lease_ms.0 / 2) };
            tokio::select! {
                biased;
                () = lease.wanted(), if !is_waited_for => {}
                () = self.context.sleep(pause) => {}
            }
        }
    }

    /// Completes when this node knows how far databases were written and what was proved, as the store and the others tell it. Without that a
    /// key that moves here is run anew, however sure its former owner was of it. A store that is away tells nothing, and a watcher that has
    /// died reports no more: what is not known by then is in doubt.
    pub async fn informed(&self) {
        let (Some(lease_ms), Some(settings)) = (self.lease_ms(), self.cache.proofs().settings()) else {
            return;
        };
        let until = self.context.now() + settings.report_ms_max(lease_ms).min(Millis(INFORMED_MS_MAX));
        loop {
            let now = self.context.now();
            let behind = LOOKS_BEHIND_MAX * self.routing.view().members().len().max(1) as u64;
            let has_looked = self.cache.lease().is_held(now);
            let is_informed = has_looked && !self.cache.proofs().awaits_report(behind);
            if is_informed || now >= until || !self.store.is_reachable() {
                return;
            }
            self.context.sleep(Millis(INFORMED_LOOK_MS)).await;
        }
    }

    /// The last look of a node that has answered its last request: its lease ends now, and no write waits for it.
    pub async fn say_farewell(&self) {
        if self.lease_ms().is_some() {
            let listener = (self.context.node(), Millis::ZERO);
            // A place of no log: nothing is read any more.
            let _ = self.store.hear_written(self.cluster, listener, Some(EventCursor::default())).await;
        }
    }

    /// Takes the store's marks, and the writes that have left them. Without these a mark ends all that depends on its tag.
    fn take_all(&self, (records, events): (&[WriteRecord], Option<&[WriteEvent]>), shown: &mut StoreView) {
        let places: BTreeSet<_> = records.iter().map(WriteRecord::place).collect();
        let mut epochs = BTreeMap::<DatabaseUuid, WriteEpoch>::new();
        for WriteRecord { written, .. } in records {
            let latest = epochs.entry(written.database()).or_default();
            *latest = (*latest).max(written.epoch());
        }
        // A write of an earlier numbering would make the step to this one a restore that was heard of just now. Schedule:
        //   write 50 · a restore to 40 begins epoch 1 · a result is read at 45 · a node starts, and hears of (0, 50) before (1, 40): it
        //   would take the result for one of epoch 0.
        let is_of_now = |event: &&WriteEvent| {
            epochs.get(&event.written.database()).is_none_or(|epoch| event.written.epoch() >= *epoch)
        };
        let logged = events.unwrap_or_default();
        for event in logged.iter().filter(is_of_now) {
            self.take_event(event, None);
        }
        self.unlogged.lock().found(logged);
        for record in records {
            let taken = if events.is_some() { self.take_beside(*record) } else { self.take(*record) };
            if taken.is_full()
                && shown.without_place.insert(record.place(), record.written) != Some(record.written)
            {
                self.forget_name(record.name);
            }
        }
        shown.without_place.retain(|place, _| places.contains(place));
    }

    /// A watcher that asks at this node's own address, since this node's last look, has met another database: this node has to ask
    /// again. A watcher at another address may be before another Neo4j, and says nothing about this one.
    fn compare_reports(&self, reports: &[Report], shown: &mut StoreView) {
        let polled_at = |report: &Report| ((report.name, report.database), report.polled);
        let before = shown.reports.replace(reports.iter().map(polled_at).collect());
        for report in reports {
            let (named, polled) = polled_at(report);
            let is_new = before.as_ref().is_some_and(|before| before.get(&named) != Some(&polled));
            if report.server != self.cache.server() {
                continue;
            }
            let known = self.cache.write_positions().known(report.name);
            self.cache.hear_of(report.name, report.database);
            if is_new && known.is_some_and(|known| known.database != report.database) {
                self.cache.recheck(report.name);
            }
        }
    }

    /// A write that has just ended was in another database than its name leads to here: this node has to ask again.
    pub(super) fn recheck_other(&self, event: &WriteEvent) {
        if self.cache.write_positions().is_anothers(&WriteRecord::of_all(event.name, event.written)) {
            self.cache.recheck(event.name);
        }
    }

    /// There is no place for a mark: this node's memory forgets what it may have ended (`limits::WRITTEN_DATABASES_MAX`).
    fn forget_name(&self, name: DatabaseTag) {
        self.cache.forget(&Scope::Tag(Tag::Database(name)));
    }

    /// Puts back the marks and the writes that the store lacks. Whether it has all of them then.
    ///
    /// Into another log each node writes its marks, also those that the store has: a later mark of another node may stand for a write that
    /// nobody would read of. Schedule:
    ///   node A writes 50, and reaches only the store · the store loses its data · node B writes 51 to the same tag, and tells it to all ·
    ///   A looks: its mark of 50 is no later than that of 51 · node C looks, and has heard of 51 with all that refines it.
    async fn mend(&self, records: &[WriteRecord], shown: &mut StoreView) -> bool {
        let stored: BTreeMap<_, _> = records.iter().map(|record| (record.place(), record.written)).collect();
        let has = |place, own: &WriteRecord| {
            stored.get(&place).is_some_and(|stored: &WritePosition| stored.is_at_or_after(&own.written))
        };
        let lacks = |own: &WriteRecord| !has(own.place(), own) && !has(own.place_of_all(), own);
        let (mut events, forgotten) = self.unlogged.lock().lacking();
        let are_all = shown.has_another_log || forgotten.is_some();
        let of_events: Vec<_> = events.iter().flat_map(WriteEvent::records).collect();
        let mut told: Vec<_> = self.cache.write_positions().records();
        told.retain(|own| are_all || lacks(own) || of_events.contains(own));
        if told.is_empty() && events.is_empty() {
            return true;
        }
        let lacking = events.clone();
        let alone = told.iter().filter(|own| are_all || !of_events.contains(own));
        events.extend(alone.copied().map(WriteEvent::from));
        let has_all = self.tell_store_of((&told, &events)).await.is_ok();
        if has_all {
            shown.has_another_log = false;
            self.unlogged.lock().written(&lacking, forgotten);
        }
        has_all
    }

    /// The marks that this node knows.
    #[must_use]
    pub fn known(&self) -> Vec<WriteRecord> {
        self.cache.write_positions().records()
    }

    /// Another node tells these. Returns the marks for everything that this node knows of the same names now.
    ///
    /// The counts come last: what they account for has left its marks. Where a mark finds no place they count for nothing: the store
    /// may still have what the write has ended.
    pub(crate) fn hear(&self, told: &WriteNews) -> Vec<WriteRecord> {
        let mut has_places = true;
        let known = |event: &WriteEvent| {
            self.recheck_other(event);
            if self.take_event(event, Some(&told.by.node)).is_full() {
                has_places = false;
                self.forget_name(event.name);
            }
            self.unlogged.lock().push(event);
            self.cache.write_positions().record_of_all(event.name, event.written.database())
        };
        let mut known: Vec<_> = told.events.iter().filter_map(known).collect();
        known.dedup();
        if has_places && !told.counted.is_empty() {
            self.cache.hear_counts(&told.by, &told.counted);
        }
        told.settled.iter().for_each(|settled| self.hear_settled(settled));
        known
    }
}
