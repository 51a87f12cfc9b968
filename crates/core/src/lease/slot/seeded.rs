//! What a store with a seeded bug does to a slot: the unfenced halves of steps that are one step in the
//! real one. Exists under `--cfg hopcache_seeded` only.

use bytes::Bytes;

use super::{HeldEntry, Slot};
use crate::entry::Head;
use crate::lease::{Commit, Token};
use crate::time::{Millis, MonoTime};

impl Slot {
    /// Whether `token` is the current lease's: the first half of a release or a commit.
    #[must_use]
    pub fn seeded_is_current(&self, now: MonoTime, token: Token) -> bool {
        self.current(now) == Some(token)
    }

    /// Ends whatever lease there is: the second half of a GET-then-DEL release.
    pub fn seeded_drop_lease(&mut self) {
        self.lease = None;
    }

    /// Stores without a look: the second half of a commit that is not atomic.
    pub fn seeded_put(&mut self, now: MonoTime, entry: Bytes, life: Millis) -> Commit {
        self.lease = None;
        self.entry = Some(HeldEntry { head: Head::read(&entry), bytes: entry, until: now + life });
        Commit::Stored
    }

    /// A fence that compares counters by order.
    pub fn seeded_commit_by_order(
        &mut self,
        now: MonoTime,
        token: Token,
        entry: Bytes,
        life: Millis,
    ) -> Commit {
        match self.current(now) {
            Some(current) if token.counter >= current.counter => self.seeded_put(now, entry, life),
            _ => Commit::Fenced,
        }
    }
}
