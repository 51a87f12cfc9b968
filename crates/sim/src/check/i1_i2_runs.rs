//! I1, I2: there is one run per key and window. Each further run needs a recorded cause.
//!
//! - A lease that a node won explains one run of that node. A failure of the store explains a run, and so does a
//!   request with its own read.
//! - A read of a cheap pattern that hardly ever hits may run once at each node (`direct_runs`).
//! - A grant is explained if there is no current lease and no fresh value.
//! - A lapse is explained by a recorded fault of its holder or of the store.

use std::collections::{BTreeMap, BTreeSet};

use hopcache_core::admission::Room;
use hopcache_core::lease::Token;
use hopcache_core::limits::STORE_SILENCES_MAX;
use hopcache_core::time::{Millis, MonoTime};

use super::book::{Book, HeldLease};
use super::direct_runs::DirectRuns;
use super::{Check, StepView};
use crate::check::record::{Fact, KeyId, Life, RunEnd, Want, What};
use crate::drive::profile::TTL_MS;
use crate::world::subject::{STATEMENTS, Subject};
use crate::world::write_statement::Touches;

/// A competition that ends without the store is over within this of its first silence, back-offs included.
const COMPETITION: Millis = Millis(3_000);

/// Longest run in a world without faults: the usual delay, the spread, and the way to the origin.
const READING: Millis = Millis(720);

/// In a world without faults every node has heard of a write so soon after its commit: one message may wait for the one
/// before it, and a message and its answer take a millisecond each.
const TELLING: Millis = Millis(5);

/// A copy may be stale earlier than its entry by this time, because nodes cut times to whole milliseconds.
const ROUNDING_MS: u64 = 2;

#[derive(Default)]
pub(super) struct Runs {
    book: Book,
    direct: DirectRuns,
    /// Leases granted and not yet run under.
    unused: BTreeMap<(Life, KeyId), Vec<Token>>,
    /// Leases that the checker assigned to runs which do not name their lease. For example, a purge takes a lease and
    /// the next competition grants another; either run may begin first.
    used: BTreeMap<(Life, KeyId), Vec<Token>>,
    /// Failed store commands that a run without a lease is explained by.
    out_of_reach: BTreeMap<(Life, KeyId), Vec<(MonoTime, u32)>>,
    /// Runs of requests with their own read, at each node. Example: a node is stopped with the message unread · the
    /// entry node runs the query itself · the node goes on and runs it too.
    own: BTreeMap<(u32, Life), u32>,
    /// The request of each forward, and how often each node served the request. A message may come twice, and each copy
    /// asks for its own read.
    hops: BTreeMap<u32, u32>,
    served: BTreeMap<(u32, Life), u32>,
    /// Events that can cost a lease: of one node, or of all.
    trouble: Vec<(MonoTime, Option<usize>)>,
    /// Questions to living nodes that were reset on their way, each with its way.
    resets: Vec<(MonoTime, (usize, usize))>,
    /// The ways of questions that are not answered, and when the last one of each way was.
    asked: BTreeMap<u32, (usize, usize)>,
    reached: BTreeMap<(usize, usize), MonoTime>,
    powers: BTreeMap<usize, (&'static str, MonoTime)>,
    /// Nodes that leave and refuse connections, though their process has not ended yet; each since when.
    closed: BTreeMap<Life, MonoTime>,
    lives: BTreeMap<usize, u32>,
    runs: BTreeMap<u32, (KeyId, Life)>,
    last: BTreeMap<KeyId, MonoTime>,
    /// Keys for which a lease was granted beside a fresh value, for an early refresh that has not run yet.
    early: BTreeSet<KeyId>,
    ended_well: BTreeMap<KeyId, bool>,
    /// Until when nodes may have heard of the last write through a node that may end entries of each statement: those whose runs began
    /// before their nodes heard of it, and so their windows.
    heard: [Option<MonoTime>; STATEMENTS.len()],
}

impl Check for Runs {
    fn name(&self) -> &'static str {
        "I1/I2 runs"
    }

    fn look(&mut self, seen: &StepView<'_>) -> Result<(), String> {
        for fact in seen.facts {
            self.note_write(fact, seen);
            self.direct.learn(fact);
            match fact.what {
                What::Reset { from, to } => self.resets.push((fact.at, (from, to))),
                What::Hop { hop, from, to, .. } => {
                    self.asked.insert(hop, (from, to));
                }
                What::ServeEnded { hop, .. } => {
                    self.reached.extend(self.asked.remove(&hop).map(|way| (way, fact.at)));
                }
                What::Closed { by } => {
                    self.closed.insert(by, fact.at);
                }
                _ => {}
            }
            self.judge(fact, seen)?;
            self.book.write(fact);
        }
        Ok(())
    }
}

impl Runs {
    /// A statement that drifts is a write for its node, without a writer in the record. Its bookmark may be of a write that no
    /// node knows of. Seed 432:
    ///   a write past all nodes makes version 3 · node 0 reads k0 and carries 2 · a statement drifts at node 0, and its
    ///   bookmark says 3 · node 0 tells that · the entry of k0 is ended, and its next reader takes a lease.
    fn note_write(&mut self, fact: &Fact, seen: &StepView<'_>) {
        let (heard, touches) = match &fact.what {
            _ if seen.ground.policy.freshness_lease_ms.is_none() => return,
            What::WriteEnded { touches, .. } => (fact.at, *touches),
            // Its client may have left, and then nothing says when its node is done.
            What::Version { by: Some(_), touches, .. } => (fact.at + TELLING, *touches),
            What::Drifted { .. } => (fact.at + TELLING, Touches::ALL),
            _ => return,
        };
        for (statement, latest) in self.heard.iter_mut().enumerate() {
            if touches.may_end(statement) {
                *latest = (*latest).max(Some(heard));
            }
        }
    }

    fn judge(&mut self, fact: &Fact, seen: &StepView<'_>) -> Result<(), String> {
        match &fact.what {
            What::Granted { key, by, token, stolen, age_max, store, .. } => {
                self.is_no_older_window(fact, seen, *key, (*store, *age_max))?;
                self.granted(fact, (*key, *by, *token), *stolen, (*store, *age_max))
            }
            What::Committed { key, by, token, .. } => {
                self.spent(*key, *by, *token);
                Ok(())
            }
            What::Released { key, token, done: true, store, .. } => {
                if let Some(held) = self.book.current(*key, *store) {
                    self.spent(*key, held.by, *token);
                }
                Ok(())
            }
            What::StoreSaid { by, word, key, silent } => {
                self.trouble.push((fact.at, Some(by.node)));
                if let (Some(key), "get_or_lease" | "steal" | "invalidate") = (key, *word) {
                    // A node asks a silent store again, so several silences are one failure.
                    let weight = if *silent { 1 } else { STORE_SILENCES_MAX + 1 };
                    self.out_of_reach.entry((*by, *key)).or_default().push((fact.at, weight));
                }
                Ok(())
            }
            What::RunBegan { run, by, subject: Some(subject), is_ahead: true, .. } => {
                self.began_ahead(fact, seen, (*run, *by, *subject))
            }
            What::RunBegan { run, by, subject: Some(subject), ask, .. } => {
                self.began(fact, seen, (*run, *by, *subject, *ask))
            }
            What::RunEnded { run, end } => {
                if let Some((key, by)) = self.runs.get(run).copied() {
                    self.ended_well.insert(key, *end == RunEnd::Whole);
                    if *end == RunEnd::Panic {
                        // A leader that panics gives nothing back: its lease lapses (F4).
                        self.trouble.push((fact.at, Some(by.node)));
                    }
                }
                Ok(())
            }
            What::Hop { hop, ask: Some(ask), .. } => {
                self.hops.insert(*hop, *ask);
                Ok(())
            }
            What::ServeBegan { hop, by, .. } => {
                if let Some(ask) = self.hops.get(hop) {
                    *self.served.entry((*ask, *by)).or_default() += 1;
                }
                Ok(())
            }
            What::Power { node, power } => {
                self.powers.insert(*node, (*power, fact.at));
                if *power == "restarted" {
                    *self.lives.entry(*node).or_default() += 1;
                }
                self.trouble.push((fact.at, Some(*node)));
                Ok(())
            }
            What::StoreLost { .. }
            | What::StoreFellBack { .. }
            | What::StoreJumped { .. }
            | What::StoreIs { .. } => {
                self.trouble.push((fact.at, None));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn granted(
        &mut self,
        fact: &Fact,
        (key, by, token): (KeyId, Life, Token),
        stolen: Option<Token>,
        (store, age_max): (MonoTime, Option<Millis>),
    ) -> Result<(), String> {
        if let Some(fresh) = self.book.fresh(key, store, age_max) {
            return Err(format!("I1: a lease was granted beside a fresh value {fresh:?}: {fact}"));
        }
        if let Some(held) = self.book.lease(key) {
            let is_current = held.until > store;
            if is_current && stolen != Some(held.token) {
                return Err(format!("I1: a lease was granted over the current one {held:?}: {fact}"));
            }
            if is_current && !self.is_dead(&held) && !self.seemed_gone(&held, by, fact.at) {
                return Err(format!("I1: a living holder was robbed of {held:?}: {fact}"));
            }
            if !is_current && !self.is_explained(&held, fact.at) {
                return Err(format!(
                    "I2: a lease lapsed, and nothing happened to its holder: {held:?}, {fact}"
                ));
            }
        }
        self.unused.entry((by, key)).or_default().push(token);
        Ok(())
    }

    /// Seed 10303: node 1 leaves, and its last ask for a lease is lost on the way · the store gives it the lease · node 1 closes
    /// its listeners, and its process ends two seconds later · in between a probe is refused, and node 2 takes the lease.
    fn is_dead(&self, held: &HeldLease) -> bool {
        let life = held.by;
        if self.closed.get(&life).is_some_and(|closed| held.granted <= *closed) {
            return true;
        }
        let lives = self.lives.get(&life.node).copied().unwrap_or(0);
        lives != life.life
            || self.powers.get(&life.node).is_some_and(|(power, _)| matches!(*power, "killed" | "left"))
    }

    /// Whether a question of this node to the holder was reset, so that the holder seems dead to it: lately, or since it answered
    /// last (`Routing::is_gone`). Then there is one more run, and the fence refuses the holder's commit.
    fn seemed_gone(&self, held: &HeldLease, to: Life, now: MonoTime) -> bool {
        let since = held.granted - COMPETITION;
        let way = (to.node, held.by.node);
        let answered = self.reached.get(&way).copied().unwrap_or_default();
        self.resets.iter().any(|(at, reset)| *reset == way && *at <= now && *at >= since.min(answered))
    }

    /// Whether an event can have cost the holder its lease: an event of its process, of its way to the store, or of the
    /// store. Events count from one command's limit before the grant.
    fn is_explained(&self, held: &HeldLease, now: MonoTime) -> bool {
        let from = held.granted - Millis(1_000);
        let stopped = self.powers.get(&held.by.node).is_some_and(|(power, _)| *power != "on");
        stopped
            || self
                .trouble
                .iter()
                .any(|(at, node)| *at >= from && *at <= now && node.is_none_or(|node| node == held.by.node))
    }

    fn spent(&mut self, key: KeyId, by: Life, token: Token) {
        let used = self.used.entry((by, key)).or_default();
        if let Some(place) = used.iter().position(|each| *each == token) {
            used.remove(place);
            return;
        }
        let unused = self.unused.entry((by, key)).or_default();
        if let Some(place) = unused.iter().position(|each| *each == token) {
            unused.remove(place);
            // A run was under this one, then, and not under the one that it was taken for.
            unused.extend(used.pop());
        }
    }

    fn began(
        &mut self,
        fact: &Fact,
        seen: &StepView<'_>,
        (run, by, subject, ask): (u32, Life, usize, Option<u32>),
    ) -> Result<(), String> {
        // A statement that is no read runs for each of its clients (I6), and so does one whose result is too large to
        // share. A statement that cannot be planned counts as a read.
        let Some(key) = key_of(seen, subject).filter(|_| !Subject::at(subject).is_each_ones()) else {
            return Ok(());
        };
        let want = ask.and_then(|ask| seen.ground.asks.get(&ask)).map_or(Want::Plain, |ask| ask.want);
        if want == Want::OnlyCached {
            return Err(format!("only-if-cached reached the origin: {fact}"));
        }
        if want == Want::Bypass {
            return Ok(());
        }
        self.runs.insert(run, (key, by));
        // It begins no window: nobody else gets its result.
        let has_lease = self.unused.get(&(by, key)).is_some_and(|unused| !unused.is_empty());
        if !has_lease && self.direct.permits(&seen.ground.policy, (by, key, subject), fact.at) {
            return Ok(());
        }
        self.is_apart(fact, seen, key)?;
        // A request with its own read runs under any holder's lease. It runs once for itself, once more after another
        // leader's bad luck, and once more for the refresh that it caused. It runs again if its message came again. If
        // the run has a lease, the lease must end in time.
        if want != Want::Plain
            && let Some(ask) = ask
        {
            let own = self.own.entry((ask, by)).or_default();
            *own += 1;
            let served = self.served.get(&(ask, by)).copied().unwrap_or(0).max(1);
            if *own <= 3 * served {
                return Ok(());
            }
        }
        let unused = self.unused.entry((by, key)).or_default();
        if !unused.is_empty() {
            let token = unused.remove(0);
            self.used.entry((by, key)).or_default().push(token);
            return Ok(());
        }
        if self.could_not_ask(fact.at, by, key) {
            return Ok(());
        }
        Err(format!("I2: a run of {key:?} without lease or cause: {fact}"))
    }

    /// A run without a request needs a lease of its own, in any state of the store.
    fn began_ahead(
        &mut self,
        fact: &Fact,
        seen: &StepView<'_>,
        (run, by, subject): (u32, Life, usize),
    ) -> Result<(), String> {
        let Some(key) = key_of(seen, subject) else {
            return Err(format!("a prefetch of a query that no client has asked: {fact}"));
        };
        self.runs.insert(run, (key, by));
        if !Subject::at(subject).is_each_ones() {
            self.is_apart(fact, seen, key)?;
        }
        let unused = self.unused.entry((by, key)).or_default();
        if unused.is_empty() {
            return Err(format!("I2: a prefetch of {key:?} without a lease: {fact}"));
        }
        let token = unused.remove(0);
        self.used.entry((by, key)).or_default().push(token);
        Ok(())
    }

    /// Whether the store recently failed a competition of this node for this key. Each failure excuses one run.
    fn could_not_ask(&mut self, now: MonoTime, by: Life, key: KeyId) -> bool {
        // A process that was stopped continues a competition from before its pause.
        let woke = self.powers.get(&by.node).is_some_and(|(_, at)| now.since(*at) <= COMPETITION);
        let failed = self.out_of_reach.entry((by, key)).or_default();
        failed.retain(|(at, _)| woke || now.since(*at) <= COMPETITION);
        let weight: u32 = failed.iter().map(|(_, weight)| weight).sum();
        let mut due = STORE_SILENCES_MAX + 1;
        if weight < due {
            return false;
        }
        // Silences of other competitions may be among the noted ones. The oldest are removed first, and only as many as
        // this competition can have had.
        for (_, weight) in failed.iter_mut() {
            let paid = due.min(*weight);
            *weight -= paid;
            due -= paid;
        }
        true
    }

    /// I1, early refreshes: each begins a new window, so each entry has one early refresh. In a world without faults,
    /// and without requests for more freshness, a lease beside a fresh value is an early refresh's. The refreshing node
    /// has a copy of this very entry and asks for anything newer: its limit is the entry's age minus the time for
    /// reading. A node with an older copy would have a higher limit, and the checker would see a whole window.
    fn is_no_older_window(
        &mut self,
        fact: &Fact,
        seen: &StepView<'_>,
        key: KeyId,
        (store, age_max): (MonoTime, Option<Millis>),
    ) -> Result<(), String> {
        let Some(age_max) = age_max else { return Ok(()) };
        let Some(fresh) = self.book.fresh(key, store, None) else {
            // What is refreshed may live in its owner's memory only.
            let policy = &seen.ground.policy;
            if policy.store_room != Room::UNBOUNDED && policy.refresh.is_early {
                self.early.insert(key);
            }
            return Ok(());
        };
        let age = fresh.age(store);
        if age.0 + ROUNDING_MS >= fresh.entry.soft.0 {
            return Ok(());
        }
        let statement = seen.ground.subjects.get(&key).map(|subject| Subject::at(*subject).statement);
        let heard = statement.and_then(|statement| self.heard[statement]);
        let is_ended = heard.is_some_and(|at| self.last.get(&key).is_none_or(|began| *began <= at));
        if is_ended {
            self.early.insert(key);
            return Ok(());
        }
        if seen.ground.is_faultless && age.saturating_sub(age_max) > READING {
            return Err(format!("I1: an early refresh of an entry of {age:?}, and not of the last: {fact}"));
        }
        // A refresh keeps the limit of when it was triggered. While it waits for another run's lease, that run's entry can grow
        // older than the limit where the TTL is short (seed 2512):
        //   a refresh wants nothing older than 1,300 ms · a prefetch has the lease, runs, and ends · the entry is older now.
        let can_wait = seen.ground.policy.ttl_ms < Millis(TTL_MS);
        if !seen.ground.policy.refresh.is_early && seen.ground.is_faultless && !can_wait {
            return Err(format!("I1: a lease beside a fresh value, and nothing is refreshed early: {fact}"));
        }
        self.early.insert(key);
        Ok(())
    }

    /// I1 as one sees it from outside, in a world without faults.
    fn is_apart(&mut self, fact: &Fact, seen: &StepView<'_>, key: KeyId) -> Result<(), String> {
        let before = self.last.insert(key, fact.at);
        let is_early = self.early.remove(&key);
        let was_well = self.ended_well.get(&key).copied().unwrap_or(false);
        // Jitter takes a tenth off a window; times are cut to whole milliseconds.
        let ttl_ms = seen.ground.policy.ttl_ms.0;
        let window_ms = ttl_ms - ttl_ms / 10 - 2;
        match before.map(|before| fact.at.since(before)) {
            Some(apart) if seen.ground.is_faultless && was_well && !is_early && apart.0 < window_ms => {
                Err(format!("I1: two runs of {key:?} are {} ms apart: {fact}", apart.0))
            }
            _ => Ok(()),
        }
    }
}

fn key_of(seen: &StepView<'_>, subject: usize) -> Option<KeyId> {
    seen.ground.subjects.iter().find(|(_, each)| **each == subject).map(|(key, _)| *key)
}
