//! Which copies are proved, as this node knows it (`core::proof`). Reports come with looks at the store. A proof needs three
//! things: this node is in touch (its lease lasts), a report that is not old, and a copy that no foreign transaction since
//! its run can have touched. Each hit of a copy that was looked at since the last report is a few relaxed loads.
//!
//! Two hits may find a copy's standing at once, by two versions. Schedule:
//!   thread A finds it proved by version 5, and stops · a report of a foreign transaction is version 6 · thread B finds it not
//!   proved, and notes that with version 6 · A notes "proved" with version 5 · the next hit sees 5 and looks anew.

use std::sync::atomic::{AtomicU64, Ordering};

use hopcache_core::bookmark::{Bookmark, DatabaseUuid, Position, ReadRange, TransactionId};
use hopcache_core::key::DatabaseTag;
use hopcache_core::limits::WATCH_SILENT_MS_MIN;
use hopcache_core::node::Holder;
use hopcache_core::proof::{CountedWrite, PollNumber, ProofTable, Report, ServerState, SettledIds, Standing};
use hopcache_core::time::{Millis, MonoTime};
use hopcache_core::write_position::{WriteEpoch, WritePosition};
use parking_lot::RwLock;

use crate::cache::Cache;
use crate::cache::copy::MemoryCopy;
use crate::model::ask::Query;
use crate::model::bounds::ValueBounds;
use crate::model::inspection::CopyProof;
use crate::model::policy::ProofSettings;

/// What this node knows from reports.
pub(crate) struct Proofs {
    settings: Option<ProofSettings>,
    /// Changes with every report, after it.
    version: AtomicU64,
    table: RwLock<ProofTable>,
}

impl ProofSettings {
    /// How old a report may be: the watcher asks once in an interval, the reports come with looks, two in a lease, and a
    /// report is of the look before it. One of each may be late.
    pub(crate) fn report_ms_max(self, lease_ms: Millis) -> Millis {
        Millis(2 * lease_ms.0 + 2 * self.watch_ms.0)
    }

    /// For how long nobody has to report before another node watches.
    fn silent_ms(self) -> Millis {
        Millis(WATCH_SILENT_MS_MIN.max(4 * self.watch_ms.0))
    }

    /// How old the last report of another watcher is at most when this node takes its place: it was silent for so long, and its last report
    /// may have been late, as may the look that brought it.
    fn succession_ms_max(self, lease_ms: Millis) -> Millis {
        Millis(self.silent_ms().0 + 2 * self.report_ms_max(lease_ms).0)
    }
}

impl Proofs {
    pub(crate) fn new(settings: Option<ProofSettings>) -> Self {
        Self { settings, version: AtomicU64::new(1), table: RwLock::default() }
    }

    pub(crate) fn settings(&self) -> Option<ProofSettings> {
        self.settings
    }

    /// The version of what is known.
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Relaxed)
    }

    /// See [`ProofTable::rights_since`].
    fn rights_since(&self) -> Option<MonoTime> {
        self.table.read().rights_since()
    }

    /// A look with this number, which began at `began`, has brought these reports.
    fn take(&self, number: PollNumber, (began, now): (MonoTime, MonoTime), reports: &[Report]) {
        let mut table = self.table.write();
        table.take(number, (began, now), reports);
        // Under the lock: whoever finds the new reports finds no standing of before them.
        self.version.fetch_add(1, Ordering::Relaxed);
    }

    /// How often a watcher asks; `None` if there is none.
    pub(crate) fn watch_ms(&self) -> Option<Millis> {
        self.settings.map(|settings| settings.watch_ms).filter(|watch_ms| *watch_ms > Millis::ZERO)
    }

    /// The last report of a database, by one of its names.
    pub(crate) fn report(&self, name: DatabaseTag, database: DatabaseUuid) -> Option<Report> {
        self.table.read().report(name, database).cloned()
    }

    /// The last foreign transaction of a database that a report names, by one of its names.
    pub(crate) fn foreign(&self, name: DatabaseTag, database: DatabaseUuid) -> Option<WritePosition> {
        let table = self.table.read();
        let Report { epoch, foreign, .. } = table.report(name, database)?;
        Some(WritePosition::at(*epoch, Position { database, id: *foreign }))
    }

    /// Whether nobody has reported of a database for a long time.
    pub(crate) fn is_unreported(
        &self,
        name: DatabaseTag,
        database: Option<DatabaseUuid>,
        now: MonoTime,
    ) -> bool {
        let Some(settings) = self.settings else { return false };
        let reported = database.and_then(|database| self.table.read().reported_at(name, database));
        reported.is_none_or(|at| now.since(at) > settings.silent_ms())
    }

    /// See [`ProofTable::is_reported_here`].
    pub(crate) fn is_reported_here(&self, name: DatabaseTag, database: DatabaseUuid) -> bool {
        self.table.read().is_reported_here(name, database)
    }

    /// See [`ProofTable::report_as_of`].
    pub(crate) fn report_as_of(&self, name: DatabaseTag, database: DatabaseUuid) -> Option<MonoTime> {
        self.table.read().report_as_of(name, database)
    }

    /// Whether an account of this time is of a watcher that has watched until a moment ago.
    pub(crate) fn is_recent(&self, as_of: MonoTime, lease_ms: Millis, now: MonoTime) -> bool {
        self.settings.is_some_and(|settings| now.since(as_of) <= settings.succession_ms_max(lease_ms))
    }

    /// See [`ProofTable::awaits_report`].
    pub(crate) fn awaits_report(&self, behind: u64) -> bool {
        self.watch_ms().is_some() && self.table.read().awaits_report(behind)
    }

    /// The number of this node's last look.
    pub(crate) fn last_poll(&self) -> Option<PollNumber> {
        self.table.read().last_poll()
    }

    /// The number of the look before it.
    pub(crate) fn poll_before_last(&self) -> Option<PollNumber> {
        self.table.read().poll_before_last()
    }

    /// See [`ProofTable::server_state`].
    fn server_state(&self, database: DatabaseUuid) -> Option<ServerState> {
        self.table.read().server_state(database)
    }

    /// When the look began of which the last report of a database is.
    pub(crate) fn settled_at(&self, database: DatabaseUuid) -> Option<MonoTime> {
        self.table.read().settled(database).map(|(_, as_of)| as_of)
    }

    /// What reports tell of an entry of this range.
    pub(crate) fn standing(&self, range: &ReadRange, read_started: MonoTime) -> Standing {
        self.table.read().standing(range, read_started)
    }

    /// All ids of a database up to this one are accounted for.
    pub(crate) fn settled(&self, database: DatabaseUuid) -> Option<TransactionId> {
        self.table.read().settled(database).map(|(id, _)| id)
    }

    /// See [`ProofTable::settled_since`].
    pub(crate) fn settled_since(&self, report: &Report) -> Option<TransactionId> {
        self.table.read().settled_since(report)
    }

    /// See [`ProofTable::reached`].
    pub(crate) fn reached(&self, database: DatabaseUuid) -> Option<(WriteEpoch, TransactionId)> {
        self.table.read().reached(database)
    }

    /// This node has heard of these writes of a node's life. Their marks are taken already.
    ///
    /// No version changes: what is proved stays proved, and only answers more bookmarks.
    fn hear(&self, by: &Holder, counted: &[CountedWrite]) {
        if self.watch_ms().is_some() && !counted.is_empty() {
            self.table.write().hear(by, counted);
        }
    }

    /// Whether a proved entry of this range has seen all that `asked` names, if ids are numbered by `epoch` now: what came since
    /// its run has not touched it.
    fn covers(&self, range: &ReadRange, epoch: WriteEpoch, asked: &Bookmark) -> bool {
        let database = range.to().database;
        let reached = self.reached(database).filter(|(of, _)| *of == epoch).map(|(_, id)| id);
        asked.positions().iter().all(|position| {
            let carried =
                range.from().in_database(position.database).is_some_and(|own| own.id >= position.id);
            let is_reached = position.database == database && reached.is_some_and(|id| id >= position.id);
            carried || is_reached
        })
    }
}

/// Whether a copy has seen what a request's bookmarks name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Coverage {
    /// Its run has.
    ByRun,
    /// All that came since its run is accounted for. So it has if it is proved.
    IfProved,
    /// It may not have.
    None,
}

impl Coverage {
    /// Whether it answers the request.
    pub(crate) fn holds(self, is_proved: bool) -> bool {
        self == Self::ByRun || self == Self::IfProved && is_proved
    }
}

impl Cache {
    /// See [`Proofs::take`]. Who could not see that a node has two labels may see it with other rights.
    pub(crate) fn take_reports(&self, number: PollNumber, times: (MonoTime, MonoTime), reports: &[Report]) {
        let rights = self.proofs.rights_since();
        self.proofs.take(number, times, reports);
        if self.proofs.rights_since() != rights {
            self.written.forget_exclusions();
        }
        self.account();
    }

    /// See [`Proofs::hear`].
    pub(crate) fn hear_counts(&self, by: &Holder, counted: &[CountedWrite]) {
        self.proofs.hear(by, counted);
        if !counted.is_empty() {
            self.account();
        }
    }

    /// Whether this node knows that the mark of a request counts here: it was made by this node a moment ago, or by another one, which may know
    /// fewer pairs of labels. It does not count where this node is in touch and accounts for all up to it. To be asked before a copy is judged:
    ///   the copy is judged · a write is heard of, with its count · this node accounts for the write, which has ended the copy.
    pub(crate) fn mark_counts(&self, written: WritePosition, now: MonoTime) -> bool {
        !(self.lease.is_held(now) && self.written.accounts_for(written))
    }

    /// Whether this copy lacks what the mark of a request is of.
    pub(crate) fn is_before_mark(
        &self,
        copy: &MemoryCopy,
        written: Option<WritePosition>,
        now: MonoTime,
    ) -> bool {
        copy.is_ended_by(written) && written.is_none_or(|written| self.mark_counts(written, now))
    }

    /// See [`ProofTable::hear_settled`]. Only a node in touch hears it.
    pub(crate) fn hear_settled(&self, of: &SettledIds) {
        self.proofs.table.write().hear_settled(of);
        self.account();
    }

    /// Tells the marks what is known of all transactions.
    fn account(&self) {
        self.written.account(|| self.proofs.table.read().accounted().collect());
    }

    /// How a copy stands to a request's bookmarks. Callers read this first, then the marks, then the proof. A node takes a write's mark before
    /// it takes the write's count, so whoever sees the count sees the mark too. The other way round:
    ///   no mark ends the copy · write W is heard of: its mark, and its count · the copy covers W's bookmark.
    pub(crate) fn coverage(&self, copy: &MemoryCopy, asked: &Bookmark) -> Coverage {
        if copy.covers(asked) {
            Coverage::ByRun
        } else if copy.range().is_some_and(|range| self.covers_if_proved(range, asked)) {
            Coverage::IfProved
        } else {
            Coverage::None
        }
    }

    /// Whether an entry of this range has seen all that `asked` names, if it is proved.
    pub(crate) fn covers_if_proved(&self, range: &ReadRange, asked: &Bookmark) -> bool {
        let epoch =
            self.written.of_database(range.to().database).map(|write_position| write_position.epoch());
        self.proofs.covers(range, epoch.unwrap_or_default(), asked)
    }

    /// Whether a copy has seen what a request's bookmarks name, while Neo4j cannot be reached: its run has, or nothing up to them has touched it,
    /// as far as this node was told. Reports have ended with Neo4j, so nothing is proved. What was accounted for before stays so.
    pub(crate) fn has_seen_in_outage(&self, copy: &MemoryCopy, asked: &Bookmark, now: MonoTime) -> bool {
        // Before the marks: see [`Cache::coverage`].
        match self.coverage(copy, asked) {
            Coverage::ByRun => true,
            Coverage::IfProved => {
                let was_proved = self.last_standing(copy, now).is_some_and(|(is_proved, _)| is_proved);
                was_proved && !self.written.has_ended(copy)
            }
            Coverage::None => false,
        }
    }

    /// Whether a copy that no write has ended is proved: then it may be served however old it is.
    pub(crate) fn proves(&self, copy: &MemoryCopy, now: MonoTime) -> bool {
        let (Some(settings), Some(lease_ms)) = (self.proofs.settings(), self.lease.lease_ms()) else {
            return false;
        };
        self.last_standing(copy, now).is_some_and(|(is_proved, as_of)| {
            is_proved
                && (settings.watch_ms == Millis::ZERO || now.since(as_of) <= settings.report_ms_max(lease_ms))
        })
    }

    /// Whether a copy was proved at the last report, and when that was. `None` if this node may have missed what others told, or if the copy has
    /// lived its longest.
    fn last_standing(&self, copy: &MemoryCopy, now: MonoTime) -> Option<(bool, MonoTime)> {
        let settings = self.proofs.settings()?;
        if !self.lease.is_held(now) || now.since(copy.read_started()) >= settings.life_ms_max {
            return None;
        }
        let version = self.proofs.version() + self.written.version();
        Some(copy.stood_at(version).unwrap_or_else(|| {
            let standing = self.standing(copy, settings, now);
            copy.stands(version, standing);
            (standing.is_proved, standing.as_of.unwrap_or_default())
        }))
    }

    /// Whether a copy that was proved has lived for half of the longest life. Another node that takes it counts its life from its last proof.
    pub(crate) fn is_of_long_ago(&self, copy: &MemoryCopy, now: MonoTime) -> bool {
        let lived_ms = now.since(copy.read_started());
        let is_long = |settings: ProofSettings| lived_ms.0 >= settings.life_ms_max.0 / 2;
        copy.age_ms(now) < lived_ms && self.proofs.settings().is_some_and(is_long)
    }

    /// Whether a copy is proved: no write has ended it, and [`Cache::proves`] holds. A copy without what it depends on is not.
    pub(crate) fn is_proved(&self, copy: &MemoryCopy, now: MonoTime) -> bool {
        !self.written.has_ended(copy) && self.proves(copy, now)
    }

    fn standing(&self, copy: &MemoryCopy, settings: ProofSettings, now: MonoTime) -> Standing {
        let Some(range) = copy.range().filter(|_| copy.is_of_graph()) else { return Standing::UNKNOWN };
        // A mark may find no place here, and then only what was read by the write's own name is forgotten. The rest is proved by nothing, whether
        // a watcher accounts for the write or nobody has to. Nothing shows until when it was the database's either. Schedule:
        //   256 databases are written, and this one is another · a result is read by the name `neo4j` · a write by an alias ends: its mark finds
        //   no place here · the watcher of `neo4j` accounts for the write.
        if !self.written.keeps_marks_of(range.to().database) {
            return Standing::UNKNOWN;
        }
        if settings.watch_ms == Millis::ZERO {
            return Standing { is_proved: true, as_of: Some(now) };
        }
        let standing = self.proofs.standing(range, copy.read_started());
        Standing { is_proved: standing.is_proved && !self.written.is_foreign_to(range), ..standing }
    }

    /// The database behind a name, and what a run that begins now has to keep of its server.
    pub(crate) fn server_state(&self, name: DatabaseTag) -> Option<(DatabaseUuid, ServerState)> {
        let database = self.written.database_of(name)?;
        Some((database, self.proofs.server_state(database)?))
    }

    /// Up to which age a stored result of this query may be proved here; zero: nothing is.
    pub(crate) fn proved_max_ms(&self, query: &Query) -> Millis {
        let (Some(settings), Some(lease_ms)) = (self.proofs.settings(), self.lease.lease_ms()) else {
            return Millis::ZERO;
        };
        let now = self.context.now();
        let reported = || self.proofs.settled_at(self.written.database_of(query.tags.database())?);
        let has_report = settings.watch_ms == Millis::ZERO
            || reported().is_some_and(|as_of| now.since(as_of) <= settings.report_ms_max(lease_ms));
        let may_prove = self.lease.is_held(now) && has_report && query.reads().of_text.is_of_graph;
        if may_prove { settings.life_ms_max } else { Millis::ZERO }
    }

    /// Whether a copy of a stored result is an answer within these bounds because it is proved, whatever its age.
    pub(crate) fn is_proved_answer(&self, copy: &MemoryCopy, bounds: &ValueBounds) -> bool {
        let now = self.context.now();
        // Before the marks: see [`Cache::coverage`].
        let coverage = self.coverage(copy, &bounds.after);
        let is_ended = self.is_before_mark(copy, bounds.written, now) || self.written.has_ended(copy);
        !is_ended && self.proves(copy, now) && coverage.holds(true)
    }

    /// How a copy stands to the transactions of its database; `None` if its run told none.
    pub(crate) fn proof_of(&self, copy: &MemoryCopy) -> Option<CopyProof> {
        let is_proved = self.is_proved(copy, self.context.now());
        Some(CopyProof { is_proved, read_at: copy.range()?.carried() })
    }
}
