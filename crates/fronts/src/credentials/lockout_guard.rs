//! Bounds how often Neo4j is asked about credentials of one user that it never accepted. At the third wrong password
//! since the last successful login Neo4j locks the user out for five seconds, and refuses the right password as well.
//! This file decides nothing about credentials that were accepted before, and keeps no credentials.
//!
//! A question takes one of two slots of its user, for a while:
//!
//! | the user | for how long |
//! |---|---|
//! | was accepted at this node within the last 30 s | 30 s: a wrong password must not lock out a user that this node serves |
//! | was not | 5 s, as long as Neo4j's own lock: after two wrong passwords the right one waits no longer than that |
//! | has had more questions, without an acceptance | 10 s, 20 s, and then 30 s: guesses get no more than two questions in 30 s |
//!
//! Known limits:
//! - Each node counts for itself, so guesses at two nodes can still lock a user out. So can requests that go to Neo4j
//!   directly, and the old password of a known client.
//! - A client that guesses under [`STRANGERS_ASKED_USERS_MAX`] other names within a window evicts the count of a user.

use std::num::NonZeroUsize;

use hopcache_core::key::PrincipalScope;
use hopcache_core::limits::{
    CREDENTIALS_TTL_MS, STRANGERS_ASKED_PER_USER_MAX, STRANGERS_ASKED_USERS_MAX, STRANGERS_ASKED_WINDOW_MS,
    STRANGERS_ASKED_WINDOW_MS_FIRST,
};
use hopcache_core::time::{Millis, MonoTime};
use lru::LruCache;

/// The questions about one user.
#[derive(Debug, Clone, Copy, Default)]
struct AskedUser {
    /// When each question slot is free again.
    free_at: [MonoTime; STRANGERS_ASKED_PER_USER_MAX],
    /// Questions since the last acceptance, or since a pause of two whole windows.
    asked: u32,
    last_asked: Option<MonoTime>,
    accepted_at: Option<MonoTime>,
}

impl AskedUser {
    /// How long the next question takes its slot.
    fn window_ms(&self, now: MonoTime) -> Millis {
        let is_served = self.accepted_at.is_some_and(|yes| now.since(yes) < Millis(CREDENTIALS_TTL_MS));
        // Two questions are asked with each window.
        let doublings = (self.asked / 2).min(16);
        let window_ms = STRANGERS_ASKED_WINDOW_MS_FIRST << doublings;
        Millis(if is_served { STRANGERS_ASKED_WINDOW_MS } else { window_ms.min(STRANGERS_ASKED_WINDOW_MS) })
    }

    fn was_asked_within(&self, windows: u64, now: MonoTime) -> bool {
        self.last_asked.is_some_and(|asked| now.since(asked) < Millis(windows * STRANGERS_ASKED_WINDOW_MS))
    }
}

/// Whether Neo4j refused these credentials recently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RecentRefusal {
    /// No refusal is known.
    Never,
    /// Neo4j refused them. They may take a slot only when no question was asked for a whole window. Otherwise a client with
    /// an old password takes each slot that becomes free, and the client with the new password never gets one.
    Refused,
}

/// A taken slot for one question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct QuestionSlot {
    free_at: MonoTime,
    asked_before: Option<MonoTime>,
}

/// Question slots for credentials that Neo4j never accepted, by user.
pub(super) struct LockoutGuard {
    users: LruCache<PrincipalScope, AskedUser>,
}

impl LockoutGuard {
    pub(super) fn new() -> Self {
        let users = NonZeroUsize::new(STRANGERS_ASKED_USERS_MAX).unwrap_or(NonZeroUsize::MIN);
        Self { users: LruCache::new(users) }
    }

    /// Takes a slot for one question, if Neo4j may be asked about this user now.
    pub(super) fn take(
        &mut self,
        user: PrincipalScope,
        seen: RecentRefusal,
        now: MonoTime,
    ) -> Option<QuestionSlot> {
        let user = self.users.get_or_insert_mut(user, AskedUser::default);
        if seen == RecentRefusal::Refused && user.was_asked_within(1, now) {
            return None;
        }
        if !user.was_asked_within(2, now) {
            user.asked = 0;
        }
        let free_at = now + user.window_ms(now);
        let place = user.free_at.iter_mut().find(|free_at| now >= **free_at)?;
        *place = free_at;
        user.asked = user.asked.saturating_add(1);
        Some(QuestionSlot { free_at, asked_before: user.last_asked.replace(now) })
    }

    /// A password may have changed: who asked with the new one before that may ask at once.
    pub(super) fn forget(&mut self) {
        self.users.clear();
    }

    /// Neo4j accepted credentials of this user, so its count of wrong passwords starts again.
    pub(super) fn begin_anew(&mut self, user: PrincipalScope, now: MonoTime) {
        self.users.put(user, AskedUser { accepted_at: Some(now), ..AskedUser::default() });
    }

    /// Neo4j has not looked at the credentials, so the question does not count.
    pub(super) fn give_back(&mut self, user: &PrincipalScope, place: QuestionSlot) {
        let Some(user) = self.users.peek_mut(user) else { return };
        if let Some(taken) = user.free_at.iter_mut().find(|free_at| **free_at == place.free_at) {
            *taken = MonoTime::default();
            user.asked = user.asked.saturating_sub(1);
            user.last_asked = place.asked_before;
        }
    }
}
