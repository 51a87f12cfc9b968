//! The watcher of a database: one node asks Neo4j for its newest transaction again and again, and accounts for every id with the
//! tallies of all nodes (`core::proof`). What nobody here has written is foreign: entries from before it are proved no more.
//!
//! The owner of the database's name on the ring watches. If it does not report, because it has no credentials or is stopped,
//! any node that has some does, until it sees another node's report. Two watchers at a time do no harm: each has an account of its own
//! (`ProofTable::settled_since`).
//!
//! A watcher asks with the credentials of the last run or write of the database on this node, and goes on with those to which Neo4j tells
//! all that it asks. It reads nothing: the question is an empty transaction.
//!
//! Another run of the server, or a step back of the ids, begins a new account: a database may have been restored.
//!
//! Reports are of `system` too: its transactions change users and rights, which no tag shows.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;

use futures_util::future::join_all;
use futures_util::stream::{FuturesUnordered, StreamExt};
use hopcache_core::bookmark::{DatabaseUuid, Position, TransactionId};
use hopcache_core::key::{DatabaseTag, QueryKey};
use hopcache_core::limits::{
    CAPTURE_AGAIN_MS, WATCH_AGAIN_MS, WATCH_ASK_MS_MAX, WATCH_RUN_MS_MAX, WATCH_TALLY_MS_MAX,
    WATCH_TRIES_MAX, WATCHED_AT_A_TIME,
};
use hopcache_core::node::NodeName;
use hopcache_core::proof::{
    Accounts, Finding, IdRange, PollNumber, Report, ServerRun, Tallies, Tally, begun,
};
use hopcache_core::tags::{TagId, Touched};
use hopcache_core::time::{Millis, MonoTime};
use hopcache_core::write_position::{KnownDatabase, WriteEpoch, WriteEvent, WritePosition, WriteRecord};
use tokio::sync::Semaphore;

use crate::model::event::{Event, InvalidationWord};
use crate::model::ports::{OriginError, Scope, Store, WriteOf};
use crate::peers;
use crate::writes::Writes;
use crate::writes::capture::{ChangeId, ForeignIds};
use crate::writes::recent::ToldBy;

/// The database of users and rights.
const SYSTEM: &str = "system";

/// This node's account of a database.
#[derive(Debug, Clone)]
pub(super) struct Account {
    database: DatabaseUuid,
    epoch: WriteEpoch,
    run: Option<ServerRun>,
    foreign: TransactionId,
    accounts: Accounts,
    /// A change from before `accounts.settled`, where the server captures changes.
    change: Option<ChangeId>,
    /// Of a report of long ago, or of nobody knows when: the look that it is of. See [`Writes::account_after_gap`].
    long_ago: Option<PollNumber>,
}

/// What Neo4j has answered a watcher: a newest transaction, and the run of the server.
type Answer = (Position, Option<ServerRun>);

impl Writes {
    /// Watches for ever.
    pub(crate) async fn watch(self: &Arc<Self>) -> Infallible {
        let Some(watch_ms) = self.cache.proofs().watch_ms() else { return pending().await };
        // Side by side: a database that does not answer holds back no other.
        let slots = Semaphore::new(WATCHED_AT_A_TIME);
        let (mut looks, mut under_way) = (FuturesUnordered::new(), BTreeSet::new());
        loop {
            let interval = self.context.sleep(watch_ms);
            tokio::pin!(interval);
            loop {
                tokio::select! {
                    biased;
                    Some(name) = looks.next() => { under_way.remove(&name); }
                    () = &mut interval => break,
                }
            }
            for (name, of) in self.watching.all() {
                if under_way.insert(name) {
                    looks.push(self.look_in_turn(name, of, &slots));
                }
            }
        }
    }

    async fn look_in_turn(
        self: &Arc<Self>,
        name: DatabaseTag,
        of: WriteOf,
        slots: &Semaphore,
    ) -> DatabaseTag {
        let _slot = slots.acquire().await;
        if let Some(polled) = self.watches_by(name) {
            self.watch_once((name, polled), &of).await;
        } else {
            // Another node's account goes on. This one would have to begin anew.
            self.watching.keep(name, None);
        }
        name
    }

    /// The look by which this node reports of a database: one that has ended before Neo4j is asked. `None`: it does not watch.
    ///
    /// Who reports in the owner's place uses the look before its last one, so that the owner's reports stand in the store, and silence it. By
    /// its last look it could go on beside the owner for ever. Schedule:
    ///   the owner looks (7), and B (8) · the owner reports by 7, and B by 8 · the store keeps B's report, and B sees its own with look 11.
    fn watches_by(&self, name: DatabaseTag) -> Option<PollNumber> {
        let mut place = [0; 32];
        place.iter_mut().zip(name.0.to_be_bytes().iter().cycle()).for_each(|(to, from)| *to = *from);
        let is_owner = self.routing.view().owner(&QueryKey(place)) == Some(self.context.node());
        match is_owner {
            true => self.cache.proofs().last_poll(),
            false => self.cache.proofs().poll_before_last().filter(|_| self.is_alone(name)),
        }
    }

    /// Whether no other node reports of a database. Without the second condition, who watches for a silent owner would be silenced by its own
    /// report, and nothing would be proved until it counts as missing again. Schedule:
    ///   the owner is stopped · B reports for it at 0 s, sees its report, and stops · from 1.5 s on nothing is proved · from 2 s on B reports.
    fn is_alone(&self, name: DatabaseTag) -> bool {
        let (proofs, database) = (self.cache.proofs(), self.cache.write_positions().database_of(name));
        proofs.is_unreported(name, database, self.context.now())
            || database.is_some_and(|database| proofs.is_reported_here(name, database))
    }

    async fn watch_once(self: &Arc<Self>, (name, polled): (DatabaseTag, PollNumber), of: &WriteOf) {
        let system = WriteOf { database: SYSTEM.into(), ..of.clone() };
        let asked = self.origin.newest(&system, Millis(WATCH_ASK_MS_MAX));
        let system = self.known_within((name, &system), WATCH_ASK_MS_MAX, asked).await;
        let Some(system) = system else { return };
        let asked = self.context.now();
        let Some(account) = self.accounted(name, of).await else { return };
        self.watching.keep(name, Some((account.clone(), asked)));
        let Account { database, epoch, run, foreign, accounts, .. } = account;
        let (system, server) = (system.id, self.cache.server());
        let report = Report { name, database, epoch, foreign, system, run, server, polled, accounts };
        let _ = self.store.report(self.cluster, &report).await;
    }

    /// The account up to now; `None` if it cannot be settled now.
    async fn accounted(self: &Arc<Self>, name: DatabaseTag, of: &WriteOf) -> Option<Account> {
        let asked = self.origin.newest_and_run(of, Millis(WATCH_ASK_MS_MAX));
        let within = WATCH_ASK_MS_MAX + WATCH_RUN_MS_MAX;
        // Before the question: what comes later is after it.
        let change = self.change_before(name, of).await;
        let answer = self.known_within((name, of), within, asked).await;
        let (newest, run) = answer?;
        let is_captured = self.cache.proofs().settings().is_some_and(|settings| settings.is_captured);
        if run.is_none() || change.is_some() || !is_captured {
            self.watching.note_told(name, of, run.is_some());
        }
        let Some(mut account) = self.account_before(name, (newest, run)) else {
            return Some(Account { change, ..self.new_account(name, (newest, run)).await? });
        };
        let ids = ForeignIds { after: account.accounts.settled, newest, epoch: account.epoch };
        let (from, long_ago) = (std::mem::replace(&mut account.change, change), account.long_ago.take());
        let finding = self.settle(name, &mut account, newest).await;
        if finding == Finding::Known
            && ids.after < newest.id
            && let Some(polled) = long_ago
        {
            let change = account.change;
            return self.account_after_gap((name, polled), (newest, run), change).await;
        }
        self.context.note(Event::Watched(finding));
        match finding {
            Finding::Known => Some(account),
            Finding::Foreign if self.tell_captured((name, of), from, &ids).await => Some(account),
            Finding::Foreign => {
                account.foreign = newest.id;
                self.context.note(Event::Invalidation(InvalidationWord::ForeignWrite));
                self.tell_foreign(name, newest);
                // Capture may have been switched on since it was refused.
                if account.change.is_none() {
                    account.change = self.change_now(name, of).await;
                }
                Some(account)
            }
            Finding::Uncertain => None,
        }
    }

    /// Nobody has watched since a report, and own writes can have taken all ids since: that says nothing. A write may take fewer ids than it
    /// counts for, and hides as many foreign ones, of all the time without a watcher. So the account begins anew, unless somebody else who
    /// watches reports meanwhile. Schedule:
    ///   the last report is of 50 · all nodes are stopped · foreign 51 to 53 · a node starts, and knows no label yet: its write of three labels
    ///   takes 54, and counts for four ids · without this, results of before 51 would be proved for days.
    async fn account_after_gap(
        self: &Arc<Self>,
        (name, polled): (DatabaseTag, PollNumber),
        (newest, run): Answer,
        change: Option<ChangeId>,
    ) -> Option<Account> {
        if self.watching.long_ago_for(name, polled, self.context.now()) < self.report_ms_max()? {
            self.context.note(Event::Watched(Finding::Uncertain));
            return None;
        }
        self.context.note(Event::Watched(Finding::Foreign));
        self.context.note(Event::Invalidation(InvalidationWord::ForeignWrite));
        Some(Account { change, ..self.new_account(name, (newest, run)).await? })
    }

    /// The change to go on from next time. A server that does not say is asked again after a while, and when something is foreign: it may have
    /// been busy, or the asker of then may not ask that.
    async fn change_before(&self, name: DatabaseTag, of: &WriteOf) -> Option<ChangeId> {
        let now = self.context.now();
        if self.watching.uncaptured(name).is_some_and(|at| now.since(at) < Millis(CAPTURE_AGAIN_MS)) {
            return None;
        }
        self.change_now(name, of).await
    }

    async fn change_now(&self, name: DatabaseTag, of: &WriteOf) -> Option<ChangeId> {
        let asked = self.current_change(of).await;
        let change =
            asked.inspect_err(|fault| self.watching.note_failed(name, of, fault)).unwrap_or_default();
        self.watching.note_uncaptured(name, change.is_none().then(|| self.context.now()));
        change
    }

    /// Accounts for the ids up to `newest`. Writes that had begun when Neo4j was asked are waited for. A node that joins is heard before it writes.
    ///
    /// Nobody waits for longer than a report proves something. Where writes overlap all the time, there may be no look at which all are over that
    /// had begun, and without this nothing would be proved any more. Schedule:
    ///   foreign 41 · own A is under way · Neo4j says 42, and A, which has taken it, is not over · own B begins, and A ends with bookmark 42 · Neo4j
    ///   says 43: one id of three is not known, and it may be B's · own C begins, and B ends with 43 · Neo4j says 44, and so on.
    async fn settle(&self, name: DatabaseTag, account: &mut Account, newest: Position) -> Finding {
        if newest.id == account.accounts.settled && self.has_heard_all(&account.accounts) {
            return Finding::Known;
        }
        let (mut begun_by_then, mut tallies) = (None, Tallies::new());
        for _ in 0..WATCH_TRIES_MAX {
            let of = (account.database, account.epoch, &account.accounts);
            (tallies, _) = self.tallies(name, of, (newest.id, false)).await;
            let begun_by_then = begun_by_then.get_or_insert_with(|| begun(&tallies));
            match account.accounts.settle(newest.id, begun_by_then, &tallies) {
                Finding::Uncertain => self.context.sleep(Millis(WATCH_AGAIN_MS)).await,
                finding => return finding,
            }
        }
        let waits_ms = self.report_ms_max();
        let has_waited = self.watching.uncertain_for(name, self.context.now());
        if waits_ms.is_none_or(|waits_ms| has_waited < waits_ms) {
            return Finding::Uncertain;
        }
        account.accounts = Accounts::begin(newest.id, &begun_by_then.unwrap_or_default(), &tallies);
        Finding::Foreign
    }

    /// How long a report proves something.
    fn report_ms_max(&self) -> Option<Millis> {
        Some(self.cache.proofs().settings()?.report_ms_max(self.lease_ms()?))
    }

    fn has_heard_all(&self, accounts: &Accounts) -> bool {
        let others = self.invalidate.in_order_to_tell(&Scope::All);
        others.iter().chain([self.context.node()]).all(|node| accounts.has_heard(node))
    }

    /// The account to go on from: this node's, or that of the last report. `None` if there is none, or if the server has been started anew or
    /// the ids have gone back since, as they do when a database is restored.
    ///
    /// This node's own account may be of long ago too: its machine was suspended, or it did not reach Neo4j. Then so is its report, and another
    /// watcher may have made a later one.
    fn account_before(&self, name: DatabaseTag, (newest, run): Answer) -> Option<Account> {
        let (proofs, lease_ms, now) = (self.cache.proofs(), self.lease_ms()?, self.context.now());
        let is_recent = |as_of: &MonoTime| proofs.is_recent(*as_of, lease_ms, now);
        let of_report = || {
            let report = proofs.report(name, newest.database)?;
            let as_of = proofs.report_as_of(name, newest.database).filter(is_recent);
            let Report { database, epoch, run, foreign, accounts, polled, .. } = report;
            let long_ago = as_of.is_none().then_some(polled);
            Some(Account { database, epoch, run, foreign, accounts, change: None, long_ago })
        };
        let own = self.watching.dated_account(name).filter(|(_, asked)| is_recent(asked));
        let account = own.map(|(own, _)| own).or_else(of_report)?;
        let is_of_now = account.database == newest.database
            && account.run == run
            && account.accounts.settled <= newest.id;
        (is_of_now && account.epoch == self.epoch_of(newest.database)).then_some(account)
    }

    pub(super) fn epoch_of(&self, database: DatabaseUuid) -> WriteEpoch {
        self.cache
            .write_positions()
            .of_database(database)
            .map(|write_position| write_position.epoch())
            .unwrap_or_default()
    }

    /// Begins an account. Nothing is known of the transactions so far.
    async fn new_account(self: &Arc<Self>, name: DatabaseTag, (newest, run): Answer) -> Option<Account> {
        // Another database by the same name: what was read in the former one is ended.
        self.learned(name, KnownDatabase { database: newest.database, is_confirmed: true, newest: None });
        let seen = self.seen_of(name, newest);
        let (written, is_back) = self.cache.write_positions().after_asking(seen, newest);
        if is_back {
            self.tallies.forget_known(name);
            let word = InvalidationWord::ForeignWrite;
            self.note_and_tell(name, ((None, written), &Touched::Anything), true, word).await;
        }
        self.tell_foreign(name, newest);
        let epoch = self.epoch_of(newest.database);
        let accounts = Accounts { settled: newest.id, ..Accounts::default() };
        let mut account = Account {
            database: newest.database,
            epoch,
            run,
            foreign: newest.id,
            accounts,
            change: None,
            long_ago: None,
        };
        let of = (account.database, account.epoch, &account.accounts);
        let (tallies, _) = self.tallies(name, of, (newest.id, false)).await;
        account.accounts = Accounts::begin(newest.id, &begun(&tallies), &tallies);
        Some(account)
    }

    /// The latest position of a database that this node knows of: by marks, and by accounts of this numbering. A mark of a write
    /// in doubt is later than all, and would hide that ids have gone back.
    pub(super) fn seen_of(&self, name: DatabaseTag, newest: Position) -> Option<WritePosition> {
        let database = newest.database;
        let (write_position, epoch) =
            (self.cache.write_positions().of_database(database), self.epoch_of(database));
        let own = self.watching.account(name).map(|own| (own.database, own.epoch, own.accounts.settled));
        let report = self.cache.proofs().report(name, database);
        let stored = report.map(|report| (report.database, report.epoch, report.accounts.settled));
        let is_of_now =
            |(of, counted, _): &(DatabaseUuid, WriteEpoch, _)| *of == database && *counted == epoch;
        let settled = own.into_iter().chain(stored).filter(is_of_now).map(|(_, _, settled)| settled);
        let settled = settled.chain(self.cache.proofs().settled(database)).max();
        let settled = settled.map(|id| WritePosition::at(epoch, Position { database, id }));
        match (write_position, settled) {
            (Some(write_position), Some(settled)) if write_position.is_unsettled() => {
                let is_back = settled.position().is_some_and(|settled| settled.id > newest.id);
                Some(if is_back { settled } else { write_position })
            }
            (Some(write_position), Some(settled)) if !write_position.is_at_or_after(&settled) => {
                Some(settled)
            }
            (write_position, settled) => write_position.or(settled),
        }
    }

    /// Tells all nodes of a foreign transaction. Nobody waits for it: foreign writers do not.
    fn tell_foreign(self: &Arc<Self>, name: DatabaseTag, newest: Position) {
        let written = WritePosition::at(self.epoch_of(newest.database), newest);
        let event = [WriteEvent::from(WriteRecord { name, written, tag: Some(TagId::FOREIGN) })];
        self.remember(&event[0], ToldBy::Write, Some(self.context.node()));
        self.cache.write_positions().take_event(&event[0], self.context.now());
        let writes = Arc::clone(self);
        self.context.spawn(async move { writes.tell(&event).await });
    }

    /// What Neo4j answers, unless it takes too long.
    async fn known_within<T>(
        &self,
        (name, of): (DatabaseTag, &WriteOf),
        within_ms: u64,
        asked: impl Future<Output = Result<Option<T>, OriginError>>,
    ) -> Option<T> {
        let epoch_by_name =
            || self.cache.write_positions().of(name).map(|write_position| write_position.epoch());
        let epoch = epoch_by_name();
        let answer = tokio::select! {
            biased;
            answer = asked => answer,
            () = self.context.sleep(Millis(within_ms)) => return None,
        };
        match &answer {
            Ok(Some(_)) => {}
            Ok(None) => self.watching.note_told(name, of, false),
            Err(error) => self.watching.note_failed(name, of, &error.kind),
        }
        // An answer that lay in the socket of a stopped process may be of a former numbering:
        //   Neo4j says 100, and this process is stopped · Neo4j is restored to 15, and another node begins epoch 1 · this
        //   process goes on, and hears of epoch 1. There is no (1, 100).
        answer.ok().flatten().filter(|_| epoch_by_name() == epoch)
    }

    /// What this node has written into a database, by all of its names, as far as it concerns these ids.
    pub(crate) fn tally(&self, name: DatabaseTag, range: &IdRange) -> Tally {
        let names = self.cache.write_positions().names_leading_to(range.database);
        let life = self.context.me().incarnation;
        let mut tally = self.tallies.of(life, (name, &names), range);
        // A write whose answer was lost is over here, and may be committed all the same.
        let may_be_more = || self.tallies.is_open_beside(name) || !self.rechecks.lock().is_empty();
        if range.is_strict && may_be_more() {
            tally.add_unclear();
        }
        tally
    }

    /// The tallies of all nodes that answer, for the ids after an account, and whether these are all. Writes of silent nodes count as foreign.
    pub(super) async fn tallies(
        &self,
        name: DatabaseTag,
        (database, epoch, accounts): (DatabaseUuid, WriteEpoch, &Accounts),
        (until, is_strict): (TransactionId, bool),
    ) -> (Tallies, bool) {
        let range = |node: &NodeName| {
            let doubted = accounts.doubted_of(node);
            IdRange { database, epoch, after: accounts.settled, until, doubted, is_strict }
        };
        let within = Millis(WATCH_TALLY_MS_MAX);
        let others = self.invalidate.in_order_to_tell(&Scope::All);
        let asked = others.iter().map(|node| self.peers.ask(node, peers::tally(name, range(node)), within));
        let told = join_all(asked).await;
        let has_all = told.iter().all(Result::is_ok);
        let mut tallies: Tallies = told.into_iter().flatten().collect();
        let me = self.context.me();
        tallies.insert(me.clone(), self.tally(name, &range(&me.node)));
        (tallies, has_all)
    }
}
