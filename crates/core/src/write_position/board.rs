//! What a store keeps for one cluster. The Lua scripts of the Redis store are the same in another language.

use std::collections::{BTreeMap, VecDeque};

use super::{Place, WriteEvent, WritePosition, WriteRecord};
use crate::bookmark::DatabaseUuid;
use crate::key::{DatabaseTag, ServerTag};
use crate::limits::{
    EVENT_LOG_BYTES_MAX, EVENT_LOG_PIECES_MAX, WRITTEN_DATABASES_MAX, WRITTEN_LISTENERS_MAX,
    WRITTEN_RECORDS_MAX,
};
use crate::node::NodeName;
use crate::proof::{PollNumber, Report};
use crate::time::{Millis, MonoTime};

/// The marks, the last writes, and the nodes that listen for them.
#[derive(Debug, Clone, Default)]
pub struct WriteBoard {
    positions: BTreeMap<Place, WritePosition>,
    log: EventLog,
    /// Each with the end of its lease.
    listeners: BTreeMap<NodeName, MonoTime>,
    polls: PollNumber,
    reports: BTreeMap<NamedDatabase, Report>,
    /// The databases that names lead to, by what nodes with an address have said.
    remembered: BTreeMap<(ServerTag, DatabaseTag), DatabaseUuid>,
}

/// The last writes, in pieces of as many as were told together.
#[derive(Debug, Clone, Default)]
struct EventLog {
    pieces: VecDeque<Vec<u8>>,
    bytes: usize,
    /// Where the next piece comes.
    end: EventCursor,
    /// The latest write of each database that was dropped, or was there before the log: whoever reads the log from its first piece on has
    /// heard of all later ones.
    floor: BTreeMap<NamedDatabase, WritePosition>,
}

/// Plain data: a place in the log of writes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EventCursor {
    /// The log. A store that has lost its data begins another one.
    pub log: u128,
    /// The number of the next piece.
    pub next: u64,
}

/// A database by one of its names.
type NamedDatabase = (DatabaseTag, DatabaseUuid);

impl EventLog {
    fn push(&mut self, piece: Vec<u8>) {
        self.bytes += piece.len();
        self.pieces.push_back(piece);
        self.end.next += 1;
        while self.pieces.len() > EVENT_LOG_PIECES_MAX
            || (self.bytes > EVENT_LOG_BYTES_MAX && self.pieces.len() > 1)
        {
            let oldest = self.pieces.pop_front().unwrap_or_default();
            self.bytes -= oldest.len();
            let dropped = WriteEvent::from_log(&oldest).unwrap_or_default();
            WriteEvent::latest(&dropped).into_iter().for_each(|record| self.raise(record));
        }
    }

    fn raise(&mut self, record: WriteRecord) {
        let floor = self.floor.entry(named(&record)).or_insert(record.written);
        if !floor.is_at_or_after(&record.written) {
            *floor = record.written;
        }
    }

    /// The events from this place on; `None` if some of them may not be here any more.
    fn since(&self, place: EventCursor) -> Option<Vec<WriteEvent>> {
        let first = self.end.next - self.pieces.len() as u64;
        let at = place.next.checked_sub(first).filter(|_| place.log == self.end.log)?;
        let at = usize::try_from(at).ok().filter(|at| *at <= self.pieces.len())?;
        self.read(at)
    }

    fn read(&self, at: usize) -> Option<Vec<WriteEvent>> {
        let read = |piece: &Vec<u8>| WriteEvent::from_log(piece);
        let pieces: Option<Vec<_>> = self.pieces.iter().skip(at).map(read).collect();
        pieces.map(|pieces| pieces.into_iter().flatten().collect())
    }

    fn floor(&self) -> Vec<WriteRecord> {
        self.floor.iter().map(|((name, _), written)| WriteRecord::of_all(*name, *written)).collect()
    }
}

impl WriteBoard {
    /// Keeps these records, or later ones that it has, and writes these events, of which they are the marks, to the log. Returns the nodes that listen, each with the rest of its lease; and where
    /// ids are counted anew since the records, the latest mark of each such database as one of everything.
    pub fn tell(
        &mut self,
        now: MonoTime,
        (records, events): (&[WriteRecord], &[WriteEvent]),
    ) -> (Vec<(NodeName, Millis)>, Vec<WriteRecord>) {
        records.iter().for_each(|record| self.keep(record));
        if !events.is_empty() {
            self.log.push(WriteEvent::to_log(events.to_vec()));
            let positions = &self.positions;
            let has_mark = |(name, database): &NamedDatabase| {
                let mut of_name = positions.range((*name, *database, None)..);
                of_name.next().is_some_and(|((of, at, _), _)| (of, at) == (name, database))
            };
            self.log.floor.retain(|named, _| has_mark(named));
        }
        let left = |(node, ends): (&NodeName, &MonoTime)| (node.clone(), ends.since(now));
        let listeners = self.listeners.iter().filter(|(_, ends)| **ends > now).map(left).collect();
        let anew: BTreeMap<_, _> = records.iter().filter_map(|record| self.anew(record)).collect();
        (listeners, anew.into_iter().map(|((name, _), written)| WriteRecord::of_all(name, written)).collect())
    }

    fn anew(&self, record: &WriteRecord) -> Option<(NamedDatabase, WritePosition)> {
        let named = named(record);
        let latest = self.of(named).map(|(_, written)| *written).max_by_key(WritePosition::rank)?;
        (latest.epoch > record.written.epoch).then_some((named, latest))
    }

    fn keep(&mut self, record: &WriteRecord) {
        if self.is_known(record) {
            return;
        }
        // Before anything is forgotten: a record without a place changes nothing.
        if self.of(named(record)).next().is_none() && !self.has_room(record.name) {
            return;
        }
        if record.tag.is_none() {
            let is_ended = |place: &Place, known: &WritePosition| {
                (place.0, place.1) == named(record) && record.written.is_at_or_after(known)
            };
            self.positions.retain(|place, known| !is_ended(place, known));
        }
        if !self.positions.contains_key(&record.place()) && self.positions.len() >= WRITTEN_RECORDS_MAX {
            self.forget_tags();
            // A tag's later mark may mark everything now.
            if self.is_known(record) {
                return;
            }
        }
        self.positions.insert(record.place(), record.written);
    }

    /// Whether there is room for another database by this name. In a full board it takes the place of those that have the name.
    fn has_room(&mut self, name: DatabaseTag) -> bool {
        if self.databases() >= WRITTEN_DATABASES_MAX {
            self.positions.retain(|(each, ..), _| *each != name);
        }
        self.databases() < WRITTEN_DATABASES_MAX
    }

    /// Whether there is a mark at or after this one, of the same thing or of everything.
    fn is_known(&self, record: &WriteRecord) -> bool {
        let places = [record.place(), record.place_of_all()];
        places
            .iter()
            .any(|place| self.positions.get(place).is_some_and(|known| known.is_at_or_after(&record.written)))
    }

    /// There is no room for another record: the latest record of each database marks everything, and is the only one.
    fn forget_tags(&mut self) {
        let mut latest = BTreeMap::<NamedDatabase, WritePosition>::new();
        for ((name, database, _), written) in &self.positions {
            let known = latest.entry((*name, *database)).or_insert(*written);
            if !known.is_at_or_after(written) {
                *known = *written;
            }
        }
        self.positions =
            latest.into_iter().map(|((name, of), written)| ((name, of, None), written)).collect();
    }

    fn of(&self, (name, database): NamedDatabase) -> impl Iterator<Item = (&Place, &WritePosition)> {
        let is_its = move |place: &Place| (place.0, place.1) == (name, database);
        self.positions.range((name, database, None)..).take_while(move |(place, _)| is_its(place))
    }

    fn databases(&self) -> usize {
        let mut databases: Vec<NamedDatabase> =
            self.positions.keys().map(|(name, database, _)| (*name, *database)).collect();
        databases.dedup();
        databases.len()
    }

    /// Every record.
    #[must_use]
    pub fn records(&self) -> Vec<WriteRecord> {
        let record = |((name, _, tag), written)| WriteRecord { name, written, tag };
        self.positions.iter().map(|(place, written)| record((*place, *written))).collect()
    }

    /// A look: the node listens from now on, for this time. It has read the log up to `since`; `None`: it has read nothing, and reads all.
    pub fn hear(
        &mut self,
        now: MonoTime,
        (node, lease_ms): (&NodeName, Millis),
        since: Option<EventCursor>,
    ) -> StorePoll {
        self.listeners.retain(|_, ends| *ends > now);
        if self.listeners.len() < WRITTEN_LISTENERS_MAX || self.listeners.contains_key(node) {
            self.listeners.insert(node.clone(), now + lease_ms);
        }
        self.polls.0 += 1;
        let (events, floor) = match since {
            Some(place) => (self.log.since(place), Vec::new()),
            None => (self.log.read(0), self.log.floor()),
        };
        StorePoll {
            records: self.records(),
            poll: self.polls,
            reports: self.reports.values().cloned().collect(),
            events,
            floor,
            cursor: self.log.end,
        }
    }

    /// Keeps a watcher's report, unless there is one of a later look of the same database by the same name. A look that has not been
    /// yet was of another numbering: the content has been lost since.
    pub fn report(&mut self, report: &Report) {
        if report.polled > self.polls {
            return;
        }
        let named = (report.name, report.database);
        let known = self.reports.get(&named);
        if known.is_some_and(|known| known.polled > report.polled) {
            return;
        }
        let is_new = known.is_none();
        if is_new && self.reports.len() >= WRITTEN_DATABASES_MAX {
            self.reports.retain(|(name, _), _| *name != report.name);
        }
        if !is_new || self.reports.len() < WRITTEN_DATABASES_MAX {
            self.reports.insert(named, report.clone());
        }
    }

    /// The database that a name leads to at this address, as a node has said last. With `said`, that from now on.
    pub fn remember(
        &mut self,
        at: (ServerTag, DatabaseTag),
        said: Option<DatabaseUuid>,
    ) -> Option<DatabaseUuid> {
        if let Some(said) = said {
            if self.remembered.len() >= WRITTEN_DATABASES_MAX && !self.remembered.contains_key(&at) {
                self.remembered.pop_first();
            }
            self.remembered.insert(at, said);
        }
        self.remembered.get(&at).copied()
    }

    /// The content is of another life: the reports are forgotten, looks have other numbers, and the log is another one.
    pub fn begin_life(&mut self, life: u128) {
        self.reports.clear();
        self.polls = PollNumber::default();
        self.log = EventLog { end: EventCursor { log: life, next: 0 }, ..EventLog::default() };
        // The marks may be of writes that no event is there of.
        self.records().into_iter().for_each(|record| self.log.raise(record));
    }
}

fn named(record: &WriteRecord) -> NamedDatabase {
    (record.name, record.written.database)
}

/// Plain data: what a look at the store brings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StorePoll {
    /// Every mark.
    pub records: Vec<WriteRecord>,
    /// The number of this look.
    pub poll: PollNumber,
    /// Every report.
    pub reports: Vec<Report>,
    /// The writes since the last look, in any order; `None` if some of them may lack: then the marks say all that is known of them.
    pub events: Option<Vec<WriteEvent>>,
    /// Of a first look: writes up to these may lack among the events.
    pub floor: Vec<WriteRecord>,
    /// The end of the log.
    pub cursor: EventCursor,
}
