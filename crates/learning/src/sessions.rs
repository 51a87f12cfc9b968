//! The last queries of each session, in the order in which they began, and the steps between them.
//!
//! Decides which steps there were: `next` follows the queries that had ended when it began, within a time window. Of
//! two that ran at the same time neither follows the other. An observation is held for a moment, since the entry nodes
//! of one session report at different times, and becomes `next` once. It never decides what a step teaches.
//!
//! For two requests through one node, that node's own clock gives the exact order. Times of two nodes agree within a
//! skew of [`SESSION_SKEW_MS`] (`clock_offsets`), and an edge needs both of
//!
//! - `next.began ≥ before.ended − skew`: requests that overlap by more than twice the skew are no step, however late
//!   they are reported;
//! - `next.began > before.began + skew`: requests sent at once are no step in either order, however soon they were
//!   answered.
//!
//! A query that did follow is a step if it began more than twice the skew after the other began. Requests sent apart
//! that overlap by less than twice the skew may or may not count: that is random, and random steps have no notable
//! probability.
//!
//! Where observations were left out (too many of the session in one round, or no room), there is a gap: nothing after it
//! follows what was before it, because the query in between is unknown.
//!
//! Bounded: sessions (the longest silent one gives way), waiting observations of each and in total, bytes, idle life.

use std::collections::{BTreeMap, BTreeSet};

use hopcache_core::key::{KeyHasher, PrincipalScope, QueryKey};
use hopcache_core::limits::{
    SESSION_BEFORE_MAX, SESSION_GAPS_MAX, SESSION_IDLE_MS, SESSION_SETTLE_MS, SESSION_SKEW_MS,
    SESSION_WAITING_MAX, SESSION_WINDOW_MS, SESSIONS_BYTES_MAX, SESSIONS_MAX, SESSIONS_WAITING_MAX,
};
use hopcache_core::time::{Millis, MonoTime};

use crate::clock_offsets::SenderClock;

/// Keyed digest of a session's id with database and principal: sessions never cross either (I5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct SessionKey(pub [u8; 32]);

impl SessionKey {
    /// The key of the session with its client's name `id`.
    #[must_use]
    pub fn of(hasher: &KeyHasher, database: &str, scope: PrincipalScope, id: &[u8]) -> Self {
        Self(hasher.session_digest(database, scope, id))
    }

    /// Its place on the ring: the owner of this key owns the session.
    #[must_use]
    pub fn on_ring(&self) -> QueryKey {
        QueryKey(self.0)
    }
}

/// An observed query, with times by the clock of the session's owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueryObservation<Q> {
    /// The query's key.
    pub key: QueryKey,
    /// When its request arrived.
    pub began: MonoTime,
    /// When it was answered.
    pub ended: MonoTime,
    /// The node that received it.
    pub sender: SenderClock,
    /// When it came, by that node's clock.
    pub began_there: MonoTime,
    /// Bytes that `query` keeps alive.
    pub weight_bytes: usize,
    /// Further facts of it.
    pub query: Q,
}

/// A settled observation and the queries that it may follow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step<Q> {
    /// Its session.
    pub session: SessionKey,
    /// At most [`SESSION_BEFORE_MAX`] that had ended when `next` began, the one that began last first.
    pub before: Vec<QueryObservation<Q>>,
    /// The query that followed.
    pub next: QueryObservation<Q>,
}

/// The fate of an observation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObservationFate {
    /// It waits to settle.
    Taken,
    /// The same query of the same session, received by the same node at the same time, is here already.
    Repeated,
    /// It began before all remembered queries of its session, which are as many as are kept. The queries that it
    /// followed are forgotten, and so is whether it was here before.
    Late,
    /// Too many wait, in its session or in total, or it is larger than the limit of bytes. Nothing is learned from it.
    Full,
}

/// Bounds of the memory of sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionBounds {
    /// Sessions.
    pub sessions: usize,
    /// Bytes of all queries.
    pub bytes: usize,
    /// Observations that wait in all sessions.
    pub waiting: usize,
}

impl Default for SessionBounds {
    fn default() -> Self {
        Self { sessions: SESSIONS_MAX, bytes: SESSIONS_BYTES_MAX, waiting: SESSIONS_WAITING_MAX }
    }
}

/// The sessions that one node keeps.
#[derive(Debug)]
pub struct Sessions<Q> {
    bounds: SessionBounds,
    sessions: BTreeMap<SessionKey, Session<Q>>,
    /// By the time of each session's last observation.
    by_use: BTreeSet<(MonoTime, SessionKey)>,
    /// By the time at which a waiting observation of each is due.
    by_due: BTreeSet<(MonoTime, SessionKey)>,
    waiting: usize,
    bytes: usize,
    dropped: u64,
    /// The latest time seen: it does not go back.
    now: MonoTime,
}

#[derive(Debug)]
struct Session<Q> {
    heard: MonoTime,
    /// Sorted by their beginnings; at most [`SESSION_BEFORE_MAX`].
    settled: Vec<QueryObservation<Q>>,
    /// With the time at which each is due, in the order of arrival.
    waiting: Vec<(MonoTime, QueryObservation<Q>)>,
    /// At most [`SESSION_GAPS_MAX`], the latest last.
    gaps: Vec<Gap>,
}

/// Observations are missing after the one of this node that began at this time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Gap {
    sender: SenderClock,
    began_there: MonoTime,
    began: MonoTime,
}

impl Gap {
    fn is_after<Q>(&self, seen: &QueryObservation<Q>) -> bool {
        if seen.sender == self.sender {
            seen.began_there <= self.began_there
        } else {
            seen.began <= self.began
        }
    }

    fn parts<Q>(&self, before: &QueryObservation<Q>, next: &QueryObservation<Q>) -> bool {
        self.is_after(before) && !self.is_after(next)
    }
}

impl<Q> QueryObservation<Q> {
    /// Of one node and its own clock: the same request, however often it is reported.
    fn is_same(&self, other: &Self) -> bool {
        (self.sender, self.began_there, self.key) == (other.sender, other.began_there, other.key)
    }

    /// The order in which the observations of a session began.
    fn place(&self) -> (MonoTime, QueryKey) {
        (self.began, self.key)
    }

    fn end(&self) -> MonoTime {
        self.ended.max(self.began)
    }

    /// Whether this had ended when `next` began, not too long before. If two began in the same instant, nobody knows
    /// which was first, even if they took no time. See the top of this file.
    fn is_before(&self, next: &Self) -> bool {
        let (began, ended, next_began, skew) = if self.sender == next.sender {
            let took_us = self.end().0 - self.began.0;
            let ended_there = MonoTime(self.began_there.0.saturating_add(took_us));
            (self.began_there, ended_there, next.began_there, Millis::ZERO)
        } else {
            (self.began, self.end(), next.began, Millis(SESSION_SKEW_MS))
        };
        began + skew < next_began
            && ended <= next_began + skew
            && next_began.since(ended) <= Millis(SESSION_WINDOW_MS)
    }
}

impl<Q: Clone> Session<Q> {
    fn all(&self) -> impl Iterator<Item = &QueryObservation<Q>> {
        self.settled.iter().chain(self.waiting.iter().map(|(_, seen)| seen))
    }

    fn bytes(&self) -> usize {
        self.all().map(|seen| seen.weight_bytes).sum()
    }

    fn refuses(&self, seen: &QueryObservation<Q>) -> Option<ObservationFate> {
        if self.all().any(|other| other.is_same(seen)) {
            return Some(ObservationFate::Repeated);
        }
        let is_full = self.settled.len() >= SESSION_BEFORE_MAX;
        if is_full && self.settled.first().is_some_and(|oldest| seen.place() < oldest.place()) {
            return Some(ObservationFate::Late);
        }
        (self.waiting.len() >= SESSION_WAITING_MAX).then_some(ObservationFate::Full)
    }

    fn before(&self, next: &QueryObservation<Q>) -> Vec<QueryObservation<Q>> {
        let is_parted = |seen: &QueryObservation<Q>| self.gaps.iter().any(|gap| gap.parts(seen, next));
        let mut before: Vec<&QueryObservation<Q>> =
            self.all().filter(|seen| seen.is_before(next) && !is_parted(seen)).collect();
        before.sort_by_key(|seen| std::cmp::Reverse(seen.place()));
        before.into_iter().take(SESSION_BEFORE_MAX).cloned().collect()
    }

    fn note_gap(&mut self, sender: SenderClock) {
        let of_sender = self.all().filter(|seen| seen.sender == sender);
        let Some(last) = of_sender.max_by_key(|seen| seen.began_there) else { return };
        let gap = Gap { sender, began_there: last.began_there, began: last.began };
        if self.gaps.last() == Some(&gap) {
            return;
        }
        if self.gaps.len() >= SESSION_GAPS_MAX {
            self.gaps.remove(0);
        }
        self.gaps.push(gap);
    }

    /// The steps to all that are due, in the order in which they began. Observations that settle together see each
    /// other, in any order of arrival, and only then are the oldest forgotten.
    fn settle(&mut self, session: SessionKey, now: MonoTime) -> Vec<Step<Q>> {
        let due = self.waiting.iter().filter(|(due, _)| *due <= now);
        let mut steps: Vec<Step<Q>> =
            due.map(|(_, next)| Step { session, before: self.before(next), next: next.clone() }).collect();
        steps.sort_by_key(|step| step.next.place());
        self.waiting.retain(|(due, _)| *due > now);
        self.settled.extend(steps.iter().map(|step| step.next.clone()));
        self.settled.sort_by_key(QueryObservation::place);
        let forgotten = self.settled.len().saturating_sub(SESSION_BEFORE_MAX);
        self.settled.drain(..forgotten);
        let mut gaps = std::mem::take(&mut self.gaps);
        gaps.retain(|gap| self.all().any(|seen| gap.is_after(seen)));
        self.gaps = gaps;
        steps
    }
}

impl<Q: Clone> Sessions<Q> {
    /// A memory without sessions.
    #[must_use]
    pub fn new(bounds: SessionBounds) -> Self {
        Self {
            bounds,
            sessions: BTreeMap::new(),
            by_use: BTreeSet::new(),
            by_due: BTreeSet::new(),
            waiting: 0,
            bytes: 0,
            dropped: 0,
            now: MonoTime::default(),
        }
    }

    /// Takes an observation at `now`. The session that was silent for longest gives way to a new one, and to bytes that
    /// have no room.
    pub fn observe(
        &mut self,
        session: SessionKey,
        seen: QueryObservation<Q>,
        now: MonoTime,
    ) -> ObservationFate {
        self.now = self.now.max(now);
        if let Some(refused) = self.sessions.get(&session).and_then(|known| known.refuses(&seen)) {
            return refused;
        }
        if self.waiting >= self.bounds.waiting || !self.has_room(session, seen.weight_bytes) {
            return ObservationFate::Full;
        }
        let due = self.now + Millis(SESSION_SETTLE_MS);
        let new = || Session { heard: self.now, settled: Vec::new(), waiting: Vec::new(), gaps: Vec::new() };
        let known = self.sessions.entry(session).or_insert_with(new);
        self.by_use.remove(&(known.heard, session));
        known.heard = self.now;
        self.by_use.insert((self.now, session));
        self.by_due.insert((due, session));
        self.waiting += 1;
        self.bytes += seen.weight_bytes;
        known.waiting.push((due, seen));
        ObservationFate::Taken
    }

    /// Observations of this session by this node are missing after those that were taken: what comes later does not
    /// follow them.
    pub fn note_gap(&mut self, session: SessionKey, sender: SenderClock) {
        if let Some(known) = self.sessions.get_mut(&session) {
            known.note_gap(sender);
        }
    }

    /// Forgets others until there is room for `bytes` more of `session`; false if that is not enough.
    fn has_room(&mut self, session: SessionKey, bytes: usize) -> bool {
        let known = self.sessions.get(&session);
        let own_bytes = known.map_or(0, Session::bytes);
        let is_new = known.is_none();
        if self.bounds.sessions == 0 || own_bytes.saturating_add(bytes) > self.bounds.bytes {
            return false;
        }
        loop {
            let has_place = !is_new || self.sessions.len() < self.bounds.sessions;
            if has_place && self.bytes.saturating_add(bytes) <= self.bounds.bytes {
                return true;
            }
            let mut oldest = self.by_use.iter().map(|(_, other)| *other);
            let Some(other) = oldest.find(|other| *other != session) else { return false };
            self.forget(other);
        }
    }

    fn forget(&mut self, session: SessionKey) {
        let Some(known) = self.sessions.remove(&session) else { return };
        self.by_use.remove(&(known.heard, session));
        for (due, _) in &known.waiting {
            self.by_due.remove(&(*due, session));
        }
        self.waiting -= known.waiting.len();
        self.bytes -= known.bytes();
        self.dropped += known.waiting.len() as u64;
    }

    /// The steps to observations that have waited long enough, session by session. Also forgets idle sessions.
    pub fn settle(&mut self, now: MonoTime) -> Vec<Step<Q>> {
        self.now = self.now.max(now);
        let mut due = BTreeSet::new();
        while let Some((_, session)) = self.by_due.first().copied().filter(|(at, _)| *at <= self.now) {
            self.by_due.pop_first();
            due.insert(session);
        }
        let mut steps = Vec::new();
        for session in due {
            let Some(known) = self.sessions.get_mut(&session) else { continue };
            let bytes = known.bytes();
            let settled = known.settle(session, self.now);
            self.bytes -= bytes - known.bytes();
            self.waiting -= settled.len();
            steps.extend(settled);
        }
        let now = self.now;
        let is_idle = |heard: MonoTime| heard + Millis(SESSION_IDLE_MS) <= now;
        while let Some((_, session)) = self.by_use.first().copied().filter(|(heard, _)| is_idle(*heard)) {
            self.forget(session);
        }
        steps
    }

    /// When [`Sessions::settle`] has something to do next.
    #[must_use]
    pub fn due(&self) -> Option<MonoTime> {
        let idle = self.by_use.first().map(|(heard, _)| *heard + Millis(SESSION_IDLE_MS));
        let settles = self.by_due.first().map(|(due, _)| *due);
        settles.into_iter().chain(idle).min()
    }

    /// Sessions that are remembered.
    #[must_use]
    pub fn len(&self) -> usize {
        self.sessions.len()
    }

    /// Observations that wait to settle.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }

    /// Bytes of all queries that are remembered.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Observations that were taken and forgotten before they settled, because other sessions needed their room.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped
    }
}
