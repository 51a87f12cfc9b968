//! Telling marks to the other nodes and to the store, and waiting until no node can serve an entry from before them.
//!
//! This node has a conversation with every node, and with the store, in which one message is under way at a time. It brings everything that
//! is new since the last one. So writes that end while one is under way share the next (group commit), and a write costs less under load.
//! A silent node delays nobody else's conversation.
//!
//! A write waits for each node until one of these holds:
//! - The node has the mark.
//! - The store has the mark, and the node's lease there has run out. The node looks at the store before it serves an
//!   entry from before the mark, and hears of it (`cache::write_lease`).
//! - The store cannot be reached, the node was silent for a whole lease, and what it may have proved by the watchers' reports of
//!   before the write is over.
//!
//! A node that refuses connections counts as silent. It may be dead, and then its lease ends. Or it is not:
//!   a firewall resets what A sends to B · B reaches the store and its clients, and has the lease · A's write ends.
//!
//! Nodes that only the store knows count too. Schedule:
//!   node A is cut off from B, and takes it off its ring · B still looks at the store · A's write ends · B has the lease.
//!
//! With its marks, a write's count is told (`core::proof`, `CountedWrite`): never before them. No write waits for its count: it only
//! saves reads at Neo4j.
//!
//! Why a report has to be over, where the store cannot be reached. Schedule:
//!   node A reaches neither B nor the store · B reaches the store, and has its lease · A's write ends · the watcher finds a
//!   transaction that nobody accounts for · B proves nothing from before it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use hopcache_core::key::DatabaseTag;
use hopcache_core::limits::{COUNTED_TOLD_MAX, EVENTS_KEPT_MAX, FRESHNESS_LEASE_MS_MAX, WRITTEN_RECORDS_MAX};
use hopcache_core::node::{Incarnation, NodeName};
use hopcache_core::proof::CountedWrite;
use hopcache_core::time::{Millis, MonoTime};
use hopcache_core::write_position::{Place, WriteEvent, WriteRecord};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::model::ports::{PeerError, Scope, Store, StoreError, StoreReceipt};
use crate::peers;
use crate::peers::message::{KnownWrites, WriteNews};
use crate::writes::Writes;

/// Tries of one telling before its node counts as silent: one message may be lost.
const TRIES: u32 = 2;

/// Everything that this node tells.
#[derive(Default)]
pub(super) struct InvalidationBroadcast {
    state: Mutex<State>,
    /// Some conversation has moved on.
    moved: Notify,
}

#[derive(Default)]
struct State {
    /// The number of the newest write or count.
    newest: u64,
    /// This node's records, each with the number of the last event that has touched its place.
    records: BTreeMap<Place, (u64, WriteRecord)>,
    /// This node's last writes, each with its number.
    events: VecDeque<(u64, WriteEvent)>,
    /// The number of the last write that is not kept any more.
    forgotten: u64,
    /// Counts of this node's last writes, each with its number: later than those of the write's records.
    counts: VecDeque<(u64, CountedWrite)>,
    nodes: BTreeMap<NodeName, NodeConversation>,
    store: StoreConversation,
}

/// How far a node has been told.
#[derive(Default)]
struct NodeConversation {
    /// The life that was told. A node that starts again has forgotten everything.
    life: Option<Incarnation>,
    told: u64,
    is_busy: bool,
    /// When a telling began that has not been answered since.
    silent_since: Option<MonoTime>,
}

/// What is new since an earlier telling.
#[derive(Debug, PartialEq, Eq)]
struct News {
    /// The number of the last of it.
    number: u64,
    events: Vec<WriteEvent>,
    counts: Vec<CountedWrite>,
}

/// How far the store has been told.
#[derive(Default)]
struct StoreConversation {
    told: u64,
    /// The store has failed every telling up to this one.
    failed: u64,
    is_busy: bool,
    /// The nodes that listen, each with the end of its lease.
    listeners: BTreeMap<NodeName, MonoTime>,
}

impl State {
    /// What came after this number. Where some of these writes are not kept any more, the marks of all of them are told: each ends all
    /// that depends on its tag.
    fn after(&self, told: u64) -> News {
        let events = if told < self.forgotten {
            self.records_after(told).into_iter().map(WriteEvent::from).collect()
        } else {
            let later = self.events.iter().skip_while(|(number, _)| *number <= told);
            later.map(|(_, event)| event.clone()).collect()
        };
        let counts = self.counts.iter().filter(|(number, _)| *number > told);
        News { number: self.newest, events, counts: counts.map(|(_, count)| *count).collect() }
    }

    /// The marks of the writes after this number.
    fn records_after(&self, told: u64) -> Vec<WriteRecord> {
        let later = self.records.values().filter(|(number, _)| *number > told);
        later.map(|(_, record)| *record).collect()
    }

    /// The number of a write that is to be told.
    fn enlist(&mut self, event: WriteEvent) -> u64 {
        self.newest += 1;
        event.records().into_iter().for_each(|record| self.keep(record));
        if self.events.len() >= EVENTS_KEPT_MAX
            && let Some((number, _)) = self.events.pop_front()
        {
            self.forgotten = number;
        }
        self.events.push_back((self.newest, event));
        self.newest
    }

    /// The number of a write's count. Its records are enlisted.
    fn enlist_count(&mut self, counted: CountedWrite) -> u64 {
        self.newest += 1;
        if self.counts.len() >= COUNTED_TOLD_MAX {
            self.counts.pop_front();
        }
        self.counts.push_back((self.newest, counted));
        self.newest
    }

    /// Keeps a record of the newest write, or a later one of the same place or of everything. Whoever is told the marks after some earlier
    /// number is told this one.
    fn keep(&mut self, record: WriteRecord) {
        for place in [record.place(), record.place_of_all()] {
            if let Some((number, known)) = self.records.get_mut(&place)
                && known.written.is_at_or_after(&record.written)
            {
                *number = self.newest;
                return;
            }
        }
        let is_new = !self.records.contains_key(&record.place());
        let record = if is_new && self.records.len() >= WRITTEN_RECORDS_MAX {
            self.make_room_for(record)
        } else {
            record
        };
        self.records.insert(record.place(), (self.newest, record));
    }

    /// The number of the latest record by a later count of these ones' ids; zero if there is none.
    fn counted_anew(&self, records: &[WriteRecord]) -> u64 {
        let places = records
            .iter()
            .flat_map(|record| [record.place(), record.place_of_all()].map(|place| (record, place)));
        let anew = places.filter_map(|(record, place)| {
            let (number, known) = self.records.get(&place)?;
            (known.written.epoch() > record.written.epoch()).then_some(*number)
        });
        anew.max().unwrap_or_default()
    }

    /// There is no room for another record: those of its database become one, which marks everything. Where that is not enough,
    /// those of each database do. So no telling is longer than what a node reads.
    fn make_room_for(&mut self, record: WriteRecord) -> WriteRecord {
        let mut written = record.written;
        self.records.retain(|_, (_, known)| {
            let is_its = known.place_of_all() == record.place_of_all();
            if is_its && known.written.is_at_or_after(&written) {
                written = known.written;
            }
            !is_its
        });
        if self.records.len() >= WRITTEN_RECORDS_MAX {
            self.forget_tags();
        }
        WriteRecord::of_all(record.name, written)
    }

    /// The records of each database become one. It has the newest number: a node that was told of the tags has not been told that
    /// the mark is everything's, and a later write of another tag may count as told by it.
    fn forget_tags(&mut self) {
        let mut latest = BTreeMap::<Place, WriteRecord>::new();
        for (_, record) in self.records.values() {
            let all = WriteRecord { tag: None, ..*record };
            let known = latest.entry(all.place()).or_insert(all);
            if all.written.is_at_or_after(&known.written) {
                *known = all;
            }
        }
        self.records = latest.into_iter().map(|(place, all)| (place, (self.newest, all))).collect();
    }

    /// Whether a node has been told of the write with this number.
    fn is_told(&self, node: &NodeName, number: u64) -> bool {
        self.nodes.get(node).is_some_and(|conversation| conversation.told >= number)
    }

    /// Until when a write with this number has to wait at least, as far as is known at `now`. `None`: no longer.
    fn wait_until(&self, number: u64, wait: &Wait) -> Option<MonoTime> {
        let has_store = self.store.told >= number;
        let is_store_away = !has_store && self.store.failed >= number;
        if !has_store && !is_store_away && wait.now < wait.until {
            return Some(wait.until);
        }
        let is_told = |node: &NodeName| self.is_told(node, number);
        let for_known = wait.others.iter().filter(|node| !is_told(node)).map(|node| {
            let silent_since = self.nodes.get(node).and_then(|conversation| conversation.silent_since);
            match (silent_since, has_store) {
                (None, _) => wait.until,
                (Some(_), true) => MonoTime::default(),
                (Some(since), false) => (since + wait.lease_ms).max(wait.reports_until),
            }
        });
        let for_listeners = self.store.listeners.iter().filter(|(node, _)| has_store && !is_told(node));
        let until = for_known.chain(for_listeners.map(|(_, until)| *until)).max();
        until.filter(|until| *until > wait.now)
    }
}

impl InvalidationBroadcast {
    /// The nodes that listen at the store.
    pub(super) fn listeners(&self) -> Vec<NodeName> {
        self.state.lock().store.listeners.keys().cloned().collect()
    }

    /// Whether the store, these nodes, and the nodes that only the store knows have the mark of everything by this name.
    pub(super) fn is_told_to_all(&self, name: DatabaseTag, others: &[NodeName]) -> bool {
        let state = self.state.lock();
        let of_all = state.records.iter().filter(|((of, _, tag), _)| *of == name && tag.is_none());
        let Some(number) = of_all.map(|(_, (number, _))| *number).max() else { return false };
        let mut nodes = others.iter().chain(state.store.listeners.keys());
        state.store.told >= number && nodes.all(|node| state.is_told(node, number))
    }
}

/// What one write waits for.
struct Wait {
    others: Vec<NodeName>,
    now: MonoTime,
    /// No node that has not answered is in touch after this time, if the store has not said otherwise.
    until: MonoTime,
    /// After this time no node proves anything by a report from before the write.
    reports_until: MonoTime,
    lease_ms: Millis,
}

impl Writes {
    /// Tells writes that this node has taken. Completes when no node in touch serves an entry from before them. Whether the
    /// store has them then: if not, a node that was out of touch may never hear of them.
    pub(super) async fn tell(self: &Arc<Self>, events: &[WriteEvent]) -> bool {
        self.tell_counted(events, None).await
    }

    /// The same for a write of this node, with its count.
    pub(super) async fn tell_counted(
        self: &Arc<Self>,
        events: &[WriteEvent],
        counted: Option<CountedWrite>,
    ) -> bool {
        let Some(lease_ms) = self.lease_ms() else { return true };
        let others = self.invalidate.in_order_to_tell(&Scope::All);
        let records: Vec<_> = events.iter().flat_map(WriteEvent::records).collect();
        let (mut number, last) = {
            let mut state = self.broadcast.state.lock();
            let numbers = events.iter().filter(|event| !event.touched.is_nothing());
            let number = numbers.map(|event| state.enlist(event.clone())).max();
            let Some(number) = number.or(counted.map(|_| 0)) else { return true };
            let last = counted.map_or(number, |counted| state.enlist_count(counted));
            let known: BTreeSet<_> = others.iter().collect();
            state.nodes.retain(|node, conversation| conversation.is_busy || known.contains(node));
            (number, last)
        };
        self.start_store_conversation(number);
        others.iter().for_each(|node| self.start_conversation(node, last));
        if records.is_empty() {
            return true;
        }
        let began = self.context.now();
        let reports_until = began + self.reports_ms_max(lease_ms);
        let mut wait = Wait { others, now: began, until: began + lease_ms, reports_until, lease_ms };
        loop {
            let moved = self.broadcast.moved.notified();
            tokio::pin!(moved);
            // In line before the look, or a move in between would wake nobody.
            moved.as_mut().enable();
            wait.now = self.context.now();
            let anew = self.broadcast.state.lock().counted_anew(&records);
            if anew > number {
                number = anew;
                self.start_lines(&wait.others, number);
            }
            let (until, is_kept) = {
                let state = self.broadcast.state.lock();
                (state.wait_until(number, &wait), state.store.told >= number)
            };
            let Some(until) = until else { return is_kept };
            // One millisecond more, for rounding.
            let left = Millis(until.since(wait.now).0.saturating_add(1));
            tokio::select! {
                biased;
                () = moved => {}
                () = self.context.sleep(left) => {}
            }
        }
    }

    /// How old a watcher's report can be by which a node proves something. Without a watcher no report ends a proof, and waiting
    /// for one would be in vain.
    fn reports_ms_max(&self, lease_ms: Millis) -> Millis {
        match self.cache.proofs().settings() {
            Some(settings) if settings.watch_ms > Millis::ZERO => settings.report_ms_max(lease_ms),
            _ => Millis::ZERO,
        }
    }

    fn start_lines(self: &Arc<Self>, others: &[NodeName], number: u64) {
        self.start_store_conversation(number);
        others.iter().for_each(|node| self.start_conversation(node, number));
    }

    fn start_conversation(self: &Arc<Self>, node: &NodeName, number: u64) {
        let mut state = self.broadcast.state.lock();
        let life = self.routing.life_of(node);
        let conversation = state.nodes.entry(node.clone()).or_default();
        if conversation.life != life {
            *conversation =
                NodeConversation { life, is_busy: conversation.is_busy, ..NodeConversation::default() };
        }
        if conversation.is_busy || conversation.told >= number {
            return;
        }
        conversation.is_busy = true;
        drop(state);
        let (writes, node) = (Arc::clone(self), node.clone());
        self.context.spawn(async move { writes.tell_node(&node).await });
    }

    /// Tells a node until it has everything, or does not answer.
    async fn tell_node(self: &Arc<Self>, node: &NodeName) {
        let (mut tried, mut tries) = (0, 0);
        loop {
            let asked = self.context.now();
            let news = {
                let mut state = self.broadcast.state.lock();
                let conversation = state.nodes.entry(node.clone()).or_default();
                let told = conversation.told;
                let news = state.after(told);
                if news.number > tried {
                    (tried, tries) = (news.number, 0);
                }
                if news.events.is_empty() && news.counts.is_empty() || tries >= TRIES {
                    if let Some(conversation) = state.nodes.get_mut(node) {
                        conversation.is_busy = false;
                    }
                    return;
                }
                news
            };
            let is_told = self.tell_node_once(node, &news).await;
            let mut state = self.broadcast.state.lock();
            let conversation = state.nodes.entry(node.clone()).or_default();
            if is_told {
                conversation.told = conversation.told.max(news.number);
                conversation.silent_since = None;
                tries = 0;
            } else {
                conversation.silent_since.get_or_insert(asked);
                tries += 1;
            }
            drop(state);
            self.broadcast.moved.notify_waiters();
        }
    }

    /// Whether the node has these now.
    async fn tell_node_once(self: &Arc<Self>, node: &NodeName, news: &News) -> bool {
        let within = Millis(self.lease_ms().unwrap_or_default().0 / 2);
        let life = self.routing.life_of(node);
        let (events, counted) = (news.events.clone(), news.counts.clone());
        let told =
            peers::written(WriteNews { events, by: self.context.me().clone(), counted, settled: None });
        match self.peers.ask(node, told, within).await {
            Ok(KnownWrites(known)) => {
                self.take_answer(&news.events, &known);
                true
            }
            Err(error) => {
                if matches!(error, PeerError::Gone(_)) {
                    self.routing.report(node, life, &error);
                }
                false
            }
        }
    }

    /// The other node, or the store, may know that the ids are counted anew: then this node's write gets its place in the new
    /// count.
    ///
    ///   Neo4j is restored · node A notices, and tells (1, 41) · node B, which has not heard it, writes and tells (0, 95).
    ///
    /// [`Writes::tell`] goes on with the new mark.
    fn take_answer(self: &Arc<Self>, news: &[WriteEvent], known: &[WriteRecord]) {
        for record in known {
            self.take(*record);
            let is_same = |own: &&WriteEvent| {
                own.name == record.name && own.written.database() == record.written.database()
            };
            for own in news.iter().filter(is_same) {
                if !own.written.is_comparable(&record.written) {
                    self.count_anew(own);
                }
            }
        }
    }

    /// A write of this node, by the ids that are counted now.
    fn count_anew(&self, own: &WriteEvent) {
        let Some(position) = own.written.position() else { return };
        let (written, _) = self.cache.write_positions().after_own_write(None, position);
        let again = self.cache.write_positions().event_of(own.name, (None, written), &own.touched);
        self.take_event(&again, Some(self.context.node()));
        self.broadcast.state.lock().enlist(again);
    }

    fn start_store_conversation(self: &Arc<Self>, number: u64) {
        let mut state = self.broadcast.state.lock();
        if state.store.is_busy || state.store.told >= number {
            return;
        }
        state.store.is_busy = true;
        drop(state);
        let writes = Arc::clone(self);
        self.context.spawn(async move { writes.tell_store().await });
    }

    /// Tells the store of these marks, and of the events that have left them, once more if the answer was lost.
    pub(super) async fn tell_store_of(
        &self,
        told: (&[WriteRecord], &[WriteEvent]),
    ) -> Result<StoreReceipt, StoreError> {
        match self.store.tell_written(self.cluster, told).await {
            Err(StoreError::TimedOut) => self.store.tell_written(self.cluster, told).await,
            answer => answer,
        }
    }

    async fn tell_store(self: &Arc<Self>) {
        loop {
            let (News { number, events, .. }, records) = {
                let mut state = self.broadcast.state.lock();
                let done = state.store.told.max(state.store.failed);
                let (news, records) = (state.after(state.store.told), state.records_after(state.store.told));
                // The store keeps no counts.
                if done >= state.newest || news.events.is_empty() {
                    state.store.is_busy = false;
                    return;
                }
                (news, records)
            };
            let answer = self.tell_store_of((&records, &events)).await;
            let now = self.context.now();
            if let Ok(told) = &answer {
                self.take_answer(&events, &told.anew);
            }
            let mut state = self.broadcast.state.lock();
            match answer {
                Ok(StoreReceipt { listeners, .. }) => {
                    state.store.told = number;
                    let others =
                        listeners.into_iter().filter(|listener| listener.node != *self.context.node());
                    // No lease is longer than this, whatever the store's clock says.
                    let until = |left_ms: Millis| now + left_ms.min(Millis(FRESHNESS_LEASE_MS_MAX));
                    state.store.listeners =
                        others.map(|listener| (listener.node, until(listener.left_ms))).collect();
                }
                Err(_) => state.store.failed = number,
            }
            drop(state);
            self.broadcast.moved.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests;
