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
    /// The last report of each database by each name, and when it was first seen here.
    reports: BTreeMap<(DatabaseTag, DatabaseUuid), (Report, MonoTime)>,
    /// Writes of this cluster that reports have not settled.
    heard: HeardByDatabase,
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
    foreign: TransactionId,
    as_of: MonoTime,
    /// What held before, in the order of time.
    spans: VecDeque<Span>,
    system: TransactionId,
    /// Users or rights have changed before this. What was read before may be refused now.
    rights_since: MonoTime,
    run: Option<ServerRun>,
    /// When a report of this run of the server was first seen here. What was read before may be of files that are gone.
    run_seen: MonoTime,
    /// Whether all reports of the last look say the same of the server. By another name of the database there may be an older one.
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
        for report in reports {
            self.see(report, now);
            let is_before = |(number, _): &&(PollNumber, MonoTime)| *number <= report.polled;
            if let Some((_, as_of)) = self.polls.iter().rev().find(is_before) {
                let as_of = *as_of;
                self.take_report(report, as_of, now);
            }
        }
        for (database, known) in &mut self.databases {
            let mut of_it = reports.iter().filter(|report| report.database == *database);
            known.are_agreed = of_it.all(|report| report.server_state() == known.server_state());
        }
        self.polls.push_back((number, began));
        if self.polls.len() > PROOF_POLLS_MAX {
            self.polls.pop_front();
        }
    }

    fn see(&mut self, report: &Report, now: MonoTime) {
        let has_room = self.reports.len() < WRITTEN_DATABASES_MAX;
        let named = (report.name, report.database);
        match self.reports.get_mut(&named) {
            Some((known, _)) if known == report => {}
            Some(known) => *known = (report.clone(), now),
            None if has_room => {
                self.reports.insert(named, (report.clone(), now));
            }
            None => {}
        }
    }

    /// The last report of this database by this name.
    #[must_use]
    pub fn report(&self, name: DatabaseTag, database: DatabaseUuid) -> Option<&Report> {
        self.reports.get(&(name, database)).map(|(report, _)| report)
    }

    /// When the last report of this database by this name was first seen here.
    #[must_use]
    pub fn reported_at(&self, name: DatabaseTag, database: DatabaseUuid) -> Option<MonoTime> {
        self.reports.get(&(name, database)).map(|(_, at)| *at)
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

    /// The last id that this report, or a node after it, has settled for all. `None`: this node goes by another report of the database. What
    /// this node reaches from there by counts is its own knowledge: another node may not have heard of these writes.
    #[must_use]
    pub fn settled_since(&self, report: &Report) -> Option<TransactionId> {
        let known = self.databases.get(&report.database)?;
        known.goes_by(report.epoch, report.foreign, report.run).then(|| known.base())
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
        self.reports
            .iter()
            .any(|((_, database), (report, _))| is_current(report) && !self.databases.contains_key(database))
    }

    /// The number of this node's last look; `None` before the first one.
    #[must_use]
    pub fn last_poll(&self) -> Option<PollNumber> {
        self.polls.back().map(|(number, _)| *number)
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
            (self.settled, self.as_of) = (report.accounts.settled, as_of);
            self.reached = self.base();
        }
    }

    /// Whether a report of this numbering, with this foreign id and run of the server, says what this node knows.
    fn goes_by(&self, epoch: WriteEpoch, foreign: TransactionId, run: Option<ServerRun>) -> bool {
        (self.epoch, self.foreign, self.run) == (epoch, foreign, run)
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
    fn standing(&self, range: &ReadRange, read_started: MonoTime) -> Standing {
        let from = range.carried();
        // An id that was known before the look, and that Neo4j did not know after it: ids have gone back, also where no watcher
        // can tell. Schedule:
        //   all up to 50 is settled, and the watcher is stopped · an entry is read at 70 · Neo4j is restored to 52 · another
        //   watcher goes on from 50, and finds that 51 and 52 are foreign · the entry's 70 is no proof.
        let has_gone_back = from > self.settled && read_started <= self.as_of;
        let is_of_this = self.are_agreed && range.under().is_some() && range.under() == self.server_state();
        if (read_started < self.rights_since && !is_of_this) || has_gone_back {
            return Standing::UNKNOWN;
        }
        // A later run of the server shows nothing of what was read before it, also where it has the same ids.
        if from >= self.foreign && (read_started >= self.run_seen || is_of_this) {
            return Standing { is_proved: true, as_of: Some(self.as_of) };
        }
        let is_of_it = |span: &&Span| span.foreign <= from && span.run_seen <= read_started;
        let span = self.spans.iter().rev().find(is_of_it);
        Standing { is_proved: false, as_of: span.map(|span| span.until) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bookmark::{Bookmark, Position};
    use crate::key::ServerTag;
    use crate::node::{Incarnation, NodeName};
    use crate::proof::Accounts;
    use crate::write_position::WritePosition;

    const DATABASE: DatabaseUuid = DatabaseUuid([1; 16]);

    fn report(polled: u64, settled: u64, foreign: u64) -> Report {
        Report {
            name: DatabaseTag(7),
            database: DATABASE,
            epoch: WriteEpoch(0),
            foreign: TransactionId(foreign),
            system: TransactionId(5),
            run: Some(ServerRun(1)),
            server: ServerTag(1),
            polled: PollNumber(polled),
            accounts: Accounts { settled: TransactionId(settled), ..Accounts::default() },
        }
    }

    fn standing(table: &ProofTable, from: u64) -> Standing {
        let at = |id| Position { database: DATABASE, id: TransactionId(id) };
        let range = ReadRange::new(Bookmark::NONE.with(Some(at(from))), at(from)).unwrap();
        table.standing(&range, MonoTime(1_000))
    }

    /// A table that has looked at 100, 200, …: looks 1, 2, ….
    fn table(reports: &[(u64, Report)]) -> ProofTable {
        let mut table = ProofTable::default();
        for (number, report) in reports {
            let began = MonoTime(number * 100);
            table.take(PollNumber(*number), (began, began), std::slice::from_ref(report));
        }
        table
    }

    #[test]
    fn a_report_shows_the_time_of_a_look_before_its_question() {
        assert_eq!(standing(&ProofTable::default(), 50), Standing::UNKNOWN);
        assert_eq!(
            standing(&table(&[(1, report(0, 50, 0))]), 50),
            Standing::UNKNOWN,
            "before the first look"
        );
        let proved = |as_of| Standing { is_proved: true, as_of: Some(MonoTime(as_of)) };
        let mut table = table(&[(1, report(0, 50, 0)), (2, report(1, 50, 0))]);
        assert_eq!(standing(&table, 50), proved(100));
        // The watcher was stopped: its report is of look 2, and comes with look 9.
        table.take(PollNumber(9), (MonoTime(900), MonoTime(900)), &[report(2, 50, 0)]);
        assert_eq!(standing(&table, 50), proved(200));
        table.take(PollNumber(10), (MonoTime(990), MonoTime(990)), &[report(9, 50, 0)]);
        assert_eq!(standing(&table, 50), proved(900));
    }

    #[test]
    fn a_foreign_transaction_ends_proofs_and_not_what_they_have_shown() {
        let table = table(&[
            (1, report(0, 50, 0)),
            (2, report(1, 50, 0)),
            (3, report(2, 60, 55)),
            (4, report(3, 60, 55)),
        ]);
        assert_eq!(standing(&table, 54), Standing { is_proved: false, as_of: Some(MonoTime(100)) });
        assert_eq!(standing(&table, 55), Standing { is_proved: true, as_of: Some(MonoTime(300)) });
        assert_eq!(table.settled(DATABASE), Some((TransactionId(60), MonoTime(300))));
    }

    #[test]
    fn what_a_node_has_settled_lasts_until_a_report_knows_of_another_foreign_id() {
        let settled = |epoch, foreign, settled| SettledIds {
            database: DATABASE,
            epoch: WriteEpoch(epoch),
            foreign: TransactionId(foreign),
            run: Some(ServerRun(1)),
            settled: TransactionId(settled),
        };
        let mut table = table(&[(1, report(0, 50, 40)), (2, report(1, 50, 40))]);
        let reached = |table: &ProofTable| table.reached(DATABASE).unwrap().1.0;
        for (of, why) in
            [(settled(1, 40, 52), "another numbering"), (settled(0, 39, 52), "another foreign id")]
        {
            table.hear_settled(&of);
            assert_eq!(reached(&table), 50, "{why}");
        }
        table.hear_settled(&settled(0, 40, 52));
        table.hear_settled(&settled(0, 40, 51));
        assert_eq!(reached(&table), 52);
        // A report that was on its way, and one that knows more.
        table.take(PollNumber(3), (MonoTime(300), MonoTime(300)), &[report(2, 51, 40)]);
        assert_eq!(reached(&table), 52);
        table.take(PollNumber(4), (MonoTime(400), MonoTime(400)), &[report(3, 60, 55)]);
        assert_eq!(reached(&table), 60);
        table.hear_settled(&settled(0, 55, 65));
        assert_eq!(table.settled(DATABASE), Some((TransactionId(60), MonoTime(300))), "it shows no time");
        let of_another_run = Report { run: Some(ServerRun(2)), ..report(4, 61, 61) };
        table.take(PollNumber(5), (MonoTime(500), MonoTime(500)), &[of_another_run]);
        assert_eq!(reached(&table), 61, "there may be no 65");
    }

    /// A count is this node's own knowledge: nothing is settled for all by it.
    #[test]
    fn what_this_node_has_come_to_by_counts_is_not_settled_for_all() {
        let last = report(1, 50, 40);
        let mut table = table(&[(1, report(0, 50, 40)), (2, last.clone())]);
        let by = Holder { node: NodeName::new("b").unwrap(), incarnation: Incarnation(1) };
        let written =
            WritePosition::at(WriteEpoch(0), Position { database: DATABASE, id: TransactionId(51) });
        table.hear(
            &by,
            &[CountedWrite { name: DatabaseTag(7), number: 1, written, after: TransactionId(50) }],
        );
        assert_eq!(table.reached(DATABASE), Some((WriteEpoch(0), TransactionId(51))));
        assert_eq!(table.settled_since(&last), Some(TransactionId(50)));
        let anothers = Report { name: DatabaseTag(8), foreign: TransactionId(45), ..last };
        assert_eq!(table.settled_since(&anothers), None, "by another name others are foreign");
    }

    /// The schedule at [`Proofs::standing`].
    #[test]
    fn an_entry_of_an_id_that_is_not_there_any_more_is_not_proved() {
        // Entries are read at 1,000 here: looks 1 and 2 come before that, looks 11 and 12 after it.
        let table = |settled| {
            table(&[
                (1, report(0, 50, 0)),
                (2, report(1, 50, 0)),
                (11, report(2, 50, 0)),
                (12, report(11, settled, settled)),
            ])
        };
        assert!(standing(&table(70), 70).is_proved);
        assert_eq!(standing(&table(52), 70), Standing::UNKNOWN);
        assert!(standing(&table(52), 52).is_proved);
    }

    /// The schedule at [`Proofs::standing`]: what another node has read before this one began.
    #[test]
    fn an_entry_from_before_the_first_report_is_proved_if_it_was_read_under_what_is_reported() {
        let now = report(1, 50, 40);
        let anew = table(&[(1, report(0, 50, 40)), (2, now.clone())]);
        let at = |id| Position { database: DATABASE, id: TransactionId(id) };
        let stands = |table: &ProofTable, from, under| {
            let range = ReadRange::new(Bookmark::NONE.with(Some(at(from))), at(from)).unwrap();
            table.standing(&range.begun_under(under), MonoTime(50)).is_proved
        };
        let state = now.server_state().unwrap();
        assert!(!stands(&anew, 45, None), "nobody knows the rights of then");
        assert!(stands(&anew, 45, Some(state)));
        assert!(!stands(&anew, 39, Some(state)), "of before a foreign transaction");
        for other in [
            ServerState { epoch: WriteEpoch(1), ..state },
            ServerState { system: TransactionId(4), ..state },
            ServerState { run: ServerRun(2), ..state },
        ] {
            assert!(!stands(&anew, 45, Some(other)), "{other:?}");
        }
        // By another name of the database there is a report of other rights. Nobody knows which is the later one.
        let mut twofold = anew.clone();
        let by_alias = Report { name: DatabaseTag(8), system: TransactionId(4), ..now.clone() };
        twofold.take(PollNumber(3), (MonoTime(300), MonoTime(300)), &[now.clone(), by_alias]);
        assert!(!stands(&twofold, 45, Some(state)));
        // A server that does not tell its run may be another one with the same ids.
        let untold = Report { run: None, ..now };
        assert_eq!(untold.server_state(), None);
        assert!(!stands(&table(&[(1, report(0, 50, 40)), (2, untold)]), 45, Some(state)));
    }

    #[test]
    fn a_node_that_starts_waits_for_a_report_that_somebody_renews() {
        let look = |table: &mut ProofTable, number: u64, reports: &[Report]| {
            table.take(PollNumber(number), (MonoTime(number), MonoTime(number)), reports);
        };
        let mut table = ProofTable::default();
        assert!(table.awaits_report(10), "it has not looked");
        look(&mut table, 100, &[report(95, 50, 0)]);
        assert!(table.awaits_report(10) && !table.awaits_report(4), "or is that report an old one?");
        look(&mut table, 101, &[report(99, 50, 0)]);
        assert!(table.awaits_report(10));
        look(&mut table, 102, &[report(100, 50, 0)]);
        assert!(!table.awaits_report(10));
    }

    /// The schedule in `proof`: entries are read at 1,000 at id 50, and another run has 50 as well.
    #[test]
    fn an_entry_of_a_former_run_of_the_server_is_not_proved() {
        let of_run = |run, polled, foreign| Report { run, ..report(polled, 50, foreign) };
        let former = |polled| of_run(Some(ServerRun(1)), polled, 0);
        let well = [(9, former(8)), (10, former(9)), (11, former(10)), (12, former(11))];
        for run in [Some(ServerRun(2)), None] {
            let mut table = table(&well);
            assert_eq!(standing(&table, 50), Standing { is_proved: true, as_of: Some(MonoTime(1_100)) });
            for (poll, foreign) in [(13, 50), (14, 50), (15, 60)] {
                let at = MonoTime(poll * 100);
                table.take(PollNumber(poll), (at, at), &[of_run(run, poll - 1, foreign)]);
                let expected = Standing { is_proved: false, as_of: Some(MonoTime(1_100)) };
                assert_eq!(standing(&table, 50), expected, "it was the database's until then");
            }
            let at = |id| Position { database: DATABASE, id: TransactionId(id) };
            let anew = ReadRange::new(Bookmark::NONE.with(Some(at(60))), at(60)).unwrap();
            assert!(table.standing(&anew, MonoTime(1_500)).is_proved, "it was read in the run of now");
            assert!(!table.standing(&anew, MonoTime(1_200)).is_proved);
        }
    }

    #[test]
    fn a_store_that_lost_its_content_numbers_anew() {
        let mut table = table(&[(7, report(0, 50, 0)), (8, report(7, 50, 0))]);
        table.take(PollNumber(1), (MonoTime(900), MonoTime(900)), &[report(7, 70, 0)]);
        assert_eq!(table.settled(DATABASE), Some((TransactionId(50), MonoTime(700))), "no look is that old");
    }

    #[test]
    fn a_change_of_rights_ends_what_was_read_before() {
        let mut table = table(&[(1, report(0, 50, 0)), (2, report(1, 50, 0))]);
        let changed = Report { system: TransactionId(6), ..report(2, 50, 0) };
        table.take(PollNumber(3), (MonoTime(2_000), MonoTime(2_000)), &[changed]);
        assert_eq!(standing(&table, 50), Standing::UNKNOWN);
    }
}
