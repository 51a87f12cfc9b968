//! How often Neo4j is asked about credentials of one user that it never accepted: at the third wrong password
//! since its last yes, whoever sent them, it locks the user out for five seconds, and refuses the right one
//! as well.
//! Decides nothing about credentials that were accepted before, and keeps none.
//!
//! Known limits: each node counts for itself, so that guesses spread over two nodes can lock a user out
//! still, as can what is sent to Neo4j past the cache and a known client's old password; and whoever sends
//! guesses under [`STRANGERS_ASKED_USERS_MAX`] other names within a window has it forgotten.

use std::num::NonZeroUsize;

use hopcache_core::key::PrincipalScope;
use hopcache_core::limits::{
    STRANGERS_ASKED_PER_USER_MAX, STRANGERS_ASKED_USERS_MAX, STRANGERS_ASKED_WINDOW_MS,
};
use hopcache_core::time::{Millis, MonoTime};
use lru::LruCache;

/// When each of a user's places is free again.
type QuestionSlots = [MonoTime; STRANGERS_ASKED_PER_USER_MAX];

/// Whether the credentials in question were refused not long ago.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Seen {
    /// Not as far as is known.
    Never,
    /// They were. They may take a place only while all are free: a client that goes on with an old password
    /// would else take each that becomes free, and the one with the new password never get any.
    Refused,
}

/// A place that was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct QuestionSlot {
    free_at: MonoTime,
}

/// Questions to Neo4j about strangers, by user.
pub(super) struct LockoutGuard {
    users: LruCache<PrincipalScope, QuestionSlots>,
}

impl LockoutGuard {
    pub(super) fn new() -> Self {
        let users = NonZeroUsize::new(STRANGERS_ASKED_USERS_MAX).unwrap_or(NonZeroUsize::MIN);
        Self { users: LruCache::new(users) }
    }

    /// A place for one question, if Neo4j may be asked about this user now.
    pub(super) fn take(&mut self, user: PrincipalScope, seen: Seen, now: MonoTime) -> Option<QuestionSlot> {
        let places = self.users.get_or_insert_mut(user, QuestionSlots::default);
        if seen == Seen::Refused && places.iter().any(|free_at| now < *free_at) {
            return None;
        }
        let place = places.iter_mut().find(|free_at| now >= **free_at)?;
        *place = now + Millis(STRANGERS_ASKED_WINDOW_MS);
        Some(QuestionSlot { free_at: *place })
    }

    /// Neo4j said yes to credentials of this user: it counts from the start again.
    pub(super) fn begin_anew(&mut self, user: &PrincipalScope) {
        self.users.pop(user);
    }

    /// Neo4j has not looked at the credentials: the question does not count.
    pub(super) fn give_back(&mut self, user: &PrincipalScope, place: QuestionSlot) {
        let places = self.users.peek_mut(user);
        if let Some(taken) = places.and_then(|all| all.iter_mut().find(|free_at| **free_at == place.free_at))
        {
            *taken = MonoTime::default();
        }
    }
}
