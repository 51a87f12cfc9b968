//! The last queries of each session, in the order in which they began, and what followed what.
//!
//! Decides which steps there were: `next` follows what had ended when it began, within a time window; of two that ran
//! at the same time neither follows the other. An observation is held for a moment, since the entry nodes of one
//! session tell of it at different times, and becomes `next` once. It never decides what a step teaches.
//!
//! Bounded: sessions (the least recently heard of gives way), what waits in each and altogether, bytes, idle life.

use crate::key::{KeyHasher, PrincipalScope, QueryKey};
use crate::time::MonoTime;

/// Keyed digest of a session's id with database and principal: sessions never cross either (I5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionKey(pub [u8; 32]);

impl SessionKey {
    /// The key of the session that its client calls `id`.
    #[must_use]
    pub fn of(hasher: &KeyHasher, database: &str, scope: PrincipalScope, id: &[u8]) -> Self {
        Self(hasher.session_digest(database, scope, id))
    }

    /// Where it stands on the ring: the owner of this key is the session's.
    #[must_use]
    pub fn on_ring(&self) -> QueryKey {
        QueryKey(self.0)
    }
}

/// An observed query, its times by the clock of who keeps the session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen<Q> {
    /// Which query.
    pub key: QueryKey,
    /// When its request arrived.
    pub began: MonoTime,
    /// When it was answered.
    pub ended: MonoTime,
    /// Bytes that `query` keeps alive.
    pub weight_bytes: usize,
    /// What is known of it.
    pub query: Q,
}

/// A settled observation and what it may follow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step<Q> {
    /// In which session.
    pub session: SessionKey,
    /// At most [`crate::limits::SESSION_BEFORE_MAX`] that had ended when `next` began, the one that began last first.
    pub before: Vec<Seen<Q>>,
    /// The query that followed.
    pub next: Seen<Q>,
}

/// What became of an observation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Observed {
    /// It waits to settle.
    Taken,
    /// The same query of the same session that began at the same time is here already.
    Repeated,
    /// Too many wait, in its session or altogether, or it is larger than all that may be kept. Nothing is learned of it.
    Full,
}

/// How much is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionBounds {
    /// Sessions.
    pub sessions: usize,
    /// Bytes of all queries.
    pub bytes: usize,
    /// Observations that wait in all sessions.
    pub waiting: usize,
}

/// The sessions that one node keeps.
#[derive(Debug)]
pub struct Sessions<Q> {
    bounds: SessionBounds,
    marker: std::marker::PhantomData<Q>,
}

impl<Q: Clone> Sessions<Q> {
    /// None yet.
    #[must_use]
    pub fn new(bounds: SessionBounds) -> Self {
        Self { bounds, marker: std::marker::PhantomData }
    }

    /// Takes in what was observed at `now`.
    pub fn observe(&mut self, _session: SessionKey, _seen: Seen<Q>, _now: MonoTime) -> Observed {
        Observed::Full
    }

    /// The steps to what has waited for long enough, and forgets sessions that are idle.
    pub fn settle(&mut self, _now: MonoTime) -> Vec<Step<Q>> {
        Vec::new()
    }

    /// When [`Sessions::settle`] has something to do next.
    #[must_use]
    pub fn due(&self) -> Option<MonoTime> {
        None
    }

    /// Sessions that are remembered.
    #[must_use]
    pub fn len(&self) -> usize {
        0
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Observations that were forgotten before they settled, since the sessions that came gave them no room.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        0
    }
}
