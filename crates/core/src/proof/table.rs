//! What the reports of watchers prove at one node.

use std::collections::{BTreeMap, VecDeque};

use super::accounts::SettledIds;
use super::reach::{CountedWrite, HeardByDatabase, HeardWrites};
use super::report::{PollNumber, Report, ServerRun, ServerState};
use crate::bookmark::{DatabaseUuid, ReadRange, TransactionId};
use crate::key::DatabaseTag;
use crate::limits::{PROOF_POLLS_MAX, PROOF_SPANS_MAX, WRITTEN_DATABASES_MAX};
use crate::node::Holder;
use crate::time::MonoTime;
use crate::write_position::{Accounted, WriteEpoch};

/// What is known of an entry that no write through the cluster has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// Whether no foreign transaction may have touched it, as far as reports tell.
    pub is_proved: bool,
    /// Until when that was so: its value was the database's at this time of this node. `None`: nothing tells.
    pub as_of: Option<MonoTime>,
}

impl Standing {
    /// Nothing is proved.
    pub const UNKNOWN: Self = Self { is_proved: false, as_of: None };
}

/// What a node knows from reports.
#[derive(Debug, Clone, Default)]
pub struct ProofTable {
    /// This node's looks at the store: their numbers, and when they began.
    polls: VecDeque<(PollNumber, MonoTime)>,
    databases: BTreeMap<DatabaseUuid, Proofs>,
    /// The last report of each database by each name.
    reports: BTreeMap<(DatabaseTag, DatabaseUuid), KnownReport>,
    /// Writes of this cluster that reports have not settled.
    heard: HeardByDatabase,
}

#[derive(Debug, Clone)]
struct KnownReport {
    report: Report,
    /// When it was first seen here.
    seen: MonoTime,
    /// When the look began of which it is; `None`: that was before this node's first look.
    as_of: Option<MonoTime>,
}

#[derive(Debug, Clone)]
struct Proofs {
    epoch: WriteEpoch,
    /// What the report with the latest look has settled.
    settled: TransactionId,
    /// What a node has settled after a write of its own, or an earlier id.
    told: TransactionId,
    /// How far the writes that this node has heard of go on from there.
    reached: TransactionId,
    /// The last foreign id that any report has named.
    foreign: TransactionId,
    /// The one that the report with the latest look has named; of reports of one look the one that was taken last. Where two nodes have watched
    /// at a time, the account that goes on may be the one that does not know of it: it began earlier.
    reported: TransactionId,
    as_of: MonoTime,
    /// What held before, in the order of time.
    spans: VecDeque<Span>,
    system: TransactionId,
    /// Users or rights have changed before this. What was read before may be refused now.
    rights_since: MonoTime,
    run: Option<ServerRun>,
    /// When a report of this run of the server was first seen here. What was read before may be of files that are gone.
    run_seen: MonoTime,
    /// Whether all reports of the last look that count here say the same of the server. By another name of the database there may be an older
    /// one. What a name was reported of that nobody uses any more does not count.
    are_agreed: bool,
}

/// A time without foreign transactions, in one run of the server.
#[derive(Debug, Clone, Copy)]
struct Span {
    /// The last foreign id before it.
    foreign: TransactionId,
    /// The last time at which there was no later one.
    until: MonoTime,
    /// When a report of its run was first seen here.
    run_seen: MonoTime,
}

impl ProofTable {
    /// A look with this number, which began at `began`, has brought these reports at `now`.
    pub fn take(&mut self, number: PollNumber, (began, now): (MonoTime, MonoTime), reports: &[Report]) {
        if self.polls.back().is_some_and(|(last, _)| *last >= number) {
            // The store has lost its content: another numbering. Its reports are of looks that this node does not know.
            self.polls.clear();
        }
        let mut counted = Vec::new();
        for report in reports {
            let is_before = |(number, _): &&(PollNumber, MonoTime)| *number <= report.polled;
            let as_of = self.polls.iter().rev().find(is_before).map(|(_, as_of)| *as_of);
            self.see(report, as_of, now);
            if let Some(as_of) = as_of {
                self.take_report(report, as_of, now);
                counted.push(report);
            }
        }
        for (database, known) in &mut self.databases {
            let mut of_it = counted.iter().filter(|report| report.database == *database);
            known.are_agreed = of_it.all(|report| report.server_state() == known.server_state());
        }
        self.polls.push_back((number, began));
        if self.polls.len() > PROOF_POLLS_MAX {
            self.polls.pop_front();
        }
    }

    fn see(&mut self, report: &Report, as_of: Option<MonoTime>, now: MonoTime) {
        let has_room = self.reports.len() < WRITTEN_DATABASES_MAX;
        let named = (report.name, report.database);
        let known = self.reports.get(&named);
        let is_known = known.is_some_and(|known| known.report == *report);
        if !is_known && (known.is_some() || has_room) {
            self.reports.insert(named, KnownReport { report: report.clone(), seen: now, as_of });
        }
    }

    /// The last report of this database by this name.
    #[must_use]
    pub fn report(&self, name: DatabaseTag, database: DatabaseUuid) -> Option<&Report> {
        self.reports.get(&(name, database)).map(|known| &known.report)
    }

    /// When the last report of this database by this name was first seen here.
    #[must_use]
    pub fn reported_at(&self, name: DatabaseTag, database: DatabaseUuid) -> Option<MonoTime> {
        self.reports.get(&(name, database)).map(|known| known.seen)
    }

    /// Whether the last report of this database by this name is of this node's own watcher: it is by a look of this node, and each look of a
    /// cluster has a number of its own.
    #[must_use]
    pub fn is_reported_here(&self, name: DatabaseTag, database: DatabaseUuid) -> bool {
        let is_own = |report: &Report| self.polls.iter().any(|(number, _)| *number == report.polled);
        self.report(name, database).is_some_and(is_own)
    }

    /// Since when at most the last report of this database by this name is: its watcher asked Neo4j later than at this time. `None`: it may
    /// be of any time before this node's first look.
    #[must_use]
    pub fn report_as_of(&self, name: DatabaseTag, database: DatabaseUuid) -> Option<MonoTime> {
        self.reports.get(&(name, database)).and_then(|known| known.as_of)
    }

    fn take_report(&mut self, report: &Report, as_of: MonoTime, now: MonoTime) {
        let has_room = self.databases.len() < WRITTEN_DATABASES_MAX;
        match self.databases.get_mut(&report.database) {
            Some(known) if known.epoch == report.epoch => known.take(report, as_of, now),
            Some(known) if known.epoch > report.epoch => {}
            Some(known) => *known = Proofs::of(report, as_of, now),
            None if has_room => {
                self.databases.insert(report.database, Proofs::of(report, as_of, now));
            }
            None => {}
        }
        if let (Some(known), Some(heard)) =
            (self.databases.get_mut(&report.database), self.heard.get_mut(&report.database))
        {
            heard.forget_settled(known.settled);
            known.go_on(heard);
        }
    }

    /// This node has heard of writes of this life of a node, and has taken their marks. Of a database without a report nothing is
    /// proved, so its writes do not matter.
    pub fn hear(&mut self, by: &Holder, counted: &[CountedWrite]) {
        for write in counted {
            let database = write.written.database();
            if self.databases.contains_key(&database) {
                self.heard.entry(database).or_default().hear(by, write);
            }
        }
        for (database, heard) in &self.heard {
            if let Some(known) = self.databases.get_mut(database) {
                known.go_on(heard);
            }
        }
    }

    /// Another node, or this one, has settled these ids after a write. To be heard only by a node that is in touch: one that was not may
    /// lack marks of these writes. Nobody waits for it, so it counts only where the last report says the same of foreign ids.
    pub fn hear_settled(&mut self, of: &SettledIds) {
        let Some(known) = self.databases.get_mut(&of.database) else { return };
        if !known.goes_by(of.epoch, of.foreign, of.run) || known.reached >= of.settled {
            return;
        }
        known.told = of.settled;
        known.reached = of.settled;
        if let Some(heard) = self.heard.get(&of.database) {
            known.go_on(heard);
        }
    }

    /// The last id that is settled for all: by the last report, or by a node after a write. `None`: this node goes by another report of the
    /// database. What this node reaches from there by counts is its own knowledge: another node may not have heard of these writes.
    ///
    /// It is `None` too while the last report's account has not passed the latest foreign id that this node knows. Schedule of two watchers at a
    /// time:
    ///   all up to 44 is known, the last foreign id is 40 · 45 is foreign: the second watcher reports it · this node settles its write 46 by that ·
    ///   the first watcher's report of 44 comes late, of the same look, and does not name 45 · this node writes 47 · without this condition it
    ///   would tell that all up to 47 is settled, and a node that does not know of 45 would answer for 47 with what was read at 44.
    #[must_use]
    pub fn settled_since(&self, report: &Report) -> Option<TransactionId> {
        let known = self.databases.get(&report.database)?;
        let is_past_foreign = known.settled >= known.foreign;
        let goes_on = is_past_foreign && known.goes_by(report.epoch, report.foreign, report.run);
        goes_on.then(|| known.base())
    }

    /// What is known of all ids of each database. See [`ProofTable::reached`].
    pub fn accounted(&self) -> impl Iterator<Item = (DatabaseUuid, (WriteEpoch, Accounted))> {
        let of = |proofs: &Proofs| Accounted { reached: proofs.reached, foreign: proofs.foreign };
        self.databases.iter().map(move |(database, proofs)| (*database, (proofs.epoch, of(proofs))))
    }

    /// Users or rights have changed before this, as far as reports tell.
    #[must_use]
    pub fn rights_since(&self) -> Option<MonoTime> {
        self.databases.values().map(|proofs| proofs.rights_since).max()
    }

    /// What this node knows of the server of a database, as a run that begins now has to keep it.
    #[must_use]
    pub fn server_state(&self, database: DatabaseUuid) -> Option<ServerState> {
        self.databases.get(&database).and_then(Proofs::server_state)
    }

    /// Whether somebody still reports of a database, as far as this node has seen, and no report of it counts here yet: its watcher has not
    /// asked Neo4j since this node's first look. `behind`: how many looks a report that is current is behind.
    #[must_use]
    pub fn awaits_report(&self, behind: u64) -> bool {
        let Some((first, _)) = self.polls.front() else { return true };
        let is_current = |report: &Report| report.polled.0.saturating_add(behind) >= first.0;
        self.reports.values().any(|KnownReport { report, .. }| {
            is_current(report) && !self.databases.contains_key(&report.database)
        })
    }

    /// The number of this node's last look; `None` before the first one.
    #[must_use]
    pub fn last_poll(&self) -> Option<PollNumber> {
        self.polls.back().map(|(number, _)| *number)
    }

    /// The number of the look before it; `None` before the second one.
    #[must_use]
    pub fn poll_before_last(&self) -> Option<PollNumber> {
        self.polls.iter().rev().nth(1).map(|(number, _)| *number)
    }

    /// What is known of an entry of this range that was read at `read_started`.
    #[must_use]
    pub fn standing(&self, range: &ReadRange, read_started: MonoTime) -> Standing {
        let database = range.to().database;
        let Some(proofs) = self.databases.get(&database) else { return Standing::UNKNOWN };
        proofs.standing(range, read_started)
    }

    /// All ids of a database up to this one are known or foreign, as of this time.
    #[must_use]
    pub fn settled(&self, database: DatabaseUuid) -> Option<(TransactionId, MonoTime)> {
        self.databases.get(&database).map(|proofs| (proofs.settled, proofs.as_of))
    }

    /// All ids of a database up to this one are known or foreign, by this numbering. Those after [`ProofTable::settled`] are of
    /// writes whose marks this node has taken.
    #[must_use]
    pub fn reached(&self, database: DatabaseUuid) -> Option<(WriteEpoch, TransactionId)> {
        self.databases.get(&database).map(|proofs| (proofs.epoch, proofs.reached))
    }
}

impl Proofs {
    fn of(report: &Report, as_of: MonoTime, now: MonoTime) -> Self {
        Self {
            epoch: report.epoch,
            settled: report.accounts.settled,
            told: TransactionId(0),
            reached: report.accounts.settled,
            foreign: report.foreign,
            reported: report.foreign,
            as_of,
            spans: VecDeque::new(),
            system: report.system,
            // Nothing is known of the time before.
            rights_since: now,
            run: report.run,
            run_seen: now,
            are_agreed: true,
        }
    }

    fn server_state(&self) -> Option<ServerState> {
        Some(ServerState { epoch: self.epoch, system: self.system, run: self.run? })
    }

    fn take(&mut self, report: &Report, as_of: MonoTime, now: MonoTime) {
        if report.system != self.system {
            (self.system, self.rights_since) = (report.system, now);
        }
        let is_another_run = report.run != self.run;
        if report.foreign > self.foreign || is_another_run {
            let Self { foreign, as_of: until, run_seen, .. } = *self;
            self.spans.push_back(Span { foreign, until, run_seen });
            if self.spans.len() > PROOF_SPANS_MAX {
                self.spans.pop_front();
            }
            self.foreign = self.foreign.max(report.foreign);
        }
        if is_another_run {
            (self.run, self.run_seen, self.told) = (report.run, now, TransactionId(0));
        }
        if as_of >= self.as_of {
            (self.settled, self.reported, self.as_of) = (report.accounts.settled, report.foreign, as_of);
            self.reached = self.base();
        }
    }

    /// Whether this node goes by this numbering, this last foreign id, and this run of the server, as the last reports say.
    fn goes_by(&self, epoch: WriteEpoch, foreign: TransactionId, run: Option<ServerRun>) -> bool {
        (self.epoch, self.reported, self.run) == (epoch, foreign, run)
    }

    /// The last id that others have settled.
    fn base(&self) -> TransactionId {
        self.settled.max(self.told)
    }

    fn go_on(&mut self, heard: &HeardWrites) {
        self.reached = heard.reach(self.epoch, self.base());
    }

    /// Of a result that was read before this node's first report, or before it has seen the last change of users, rights or the server, the
    /// range decides: it keeps what its own node knew when the run began. If that is what is known now, nothing has changed since: ids of
    /// `system` only go back with another run of the server, and no run comes twice. Schedule:
    ///   node A reads under (system 7, run 1), and stores the result · a right is taken away as 8 · node B starts, and hears of (8, 1): the
    ///   result is of 7 · node A reads it anew under (8, 1) · node C starts: the result is of what C hears, and was read after 8.
    ///
    /// A range that keeps something else than what is known now proves nothing, whenever it was read: its own node knew less, or more, than
    /// this one does.
    fn standing(&self, range: &ReadRange, read_started: MonoTime) -> Standing {
        let from = range.carried();
        // An id that was known before the look, and that Neo4j did not know after it: ids have gone back, also where no watcher
        // can tell. Schedule:
        //   all up to 50 is settled, and the watcher is stopped · an entry is read at 70 · Neo4j is restored to 52 · another
        //   watcher goes on from 50, and finds that 51 and 52 are foreign · the entry's 70 is no proof.
        let has_gone_back = from > self.settled && read_started <= self.as_of;
        let (under, now) = (range.under(), self.server_state());
        let is_of_this = self.are_agreed && under.is_some() && under == now;
        // Of another run of the server only the ids tell nothing; its users and rights may be those of now.
        let is_of_other = |under: ServerState| (under.epoch, under.system) != (self.epoch, self.system);
        let is_before_rights = read_started < self.rights_since && !is_of_this;
        if is_before_rights || has_gone_back || under.is_some_and(is_of_other) {
            return Standing::UNKNOWN;
        }
        // A later run of the server shows nothing of what was read before it, also where it has the same ids.
        let is_of_run = under.is_none_or(|under| self.run == Some(under.run));
        if from >= self.foreign && is_of_run && (read_started >= self.run_seen || is_of_this) {
            return Standing { is_proved: true, as_of: Some(self.as_of) };
        }
        let is_of_it = |span: &&Span| span.foreign <= from && span.run_seen <= read_started;
        let span = self.spans.iter().rev().find(is_of_it);
        Standing { is_proved: false, as_of: span.map(|span| span.until) }
    }
}

#[cfg(test)]
mod tests;
