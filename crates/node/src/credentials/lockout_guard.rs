//! Bounds how often Neo4j is asked about credentials of one user that it never accepted. At the third wrong password
//! since the last successful login Neo4j locks the user out for five seconds, and refuses the right password as well.
//! This file decides nothing about credentials that were accepted before, and keeps no credentials.
//!
//! Known limits:
//! - Each node counts for itself, so guesses at two nodes can still lock a user out. So can requests that go to Neo4j
//!   directly, and the old password of a known client.
//! - A client that guesses under [`STRANGERS_ASKED_USERS_MAX`] other names within a window evicts the count of a user.

use std::num::NonZeroUsize;

use hopcache_core::key::PrincipalScope;
use hopcache_core::limits::{
    STRANGERS_ASKED_PER_USER_MAX, STRANGERS_ASKED_USERS_MAX, STRANGERS_ASKED_WINDOW_MS,
};
use hopcache_core::time::{Millis, MonoTime};
use lru::LruCache;

/// When each question slot of a user is free again.
type QuestionSlots = [MonoTime; STRANGERS_ASKED_PER_USER_MAX];

/// Whether Neo4j refused these credentials recently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Seen {
    /// No refusal is known.
    Never,
    /// Neo4j refused them. They may take a slot only while all slots are free. Otherwise a client with an old password
    /// takes each slot that becomes free, and the client with the new password never gets one.
    Refused,
}

/// A taken slot for one question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct QuestionSlot {
    free_at: MonoTime,
}

/// Question slots for credentials that Neo4j never accepted, by user.
pub(super) struct LockoutGuard {
    users: LruCache<PrincipalScope, QuestionSlots>,
}

impl LockoutGuard {
    pub(super) fn new() -> Self {
        let users = NonZeroUsize::new(STRANGERS_ASKED_USERS_MAX).unwrap_or(NonZeroUsize::MIN);
        Self { users: LruCache::new(users) }
    }

    /// Takes a slot for one question, if Neo4j may be asked about this user now.
    pub(super) fn take(&mut self, user: PrincipalScope, seen: Seen, now: MonoTime) -> Option<QuestionSlot> {
        let places = self.users.get_or_insert_mut(user, QuestionSlots::default);
        if seen == Seen::Refused && places.iter().any(|free_at| now < *free_at) {
            return None;
        }
        let place = places.iter_mut().find(|free_at| now >= **free_at)?;
        *place = now + Millis(STRANGERS_ASKED_WINDOW_MS);
        Some(QuestionSlot { free_at: *place })
    }

    /// Neo4j accepted credentials of this user, so its count of wrong passwords starts again.
    pub(super) fn begin_anew(&mut self, user: &PrincipalScope) {
        self.users.pop(user);
    }

    /// Neo4j has not looked at the credentials, so the question does not count.
    pub(super) fn give_back(&mut self, user: &PrincipalScope, place: QuestionSlot) {
        let places = self.users.peek_mut(user);
        if let Some(taken) = places.and_then(|all| all.iter_mut().find(|free_at| **free_at == place.free_at))
        {
            *taken = MonoTime::default();
        }
    }
}
