//! Bugs of a store, where one is chosen (`hopcache_core::seeded`); in a usual build only the steps as they should be.

use bytes::Bytes;
use hopcache_core::lease::slot::Slot;
use hopcache_core::lease::{Commit, Token};
#[cfg(hopcache_seeded)]
use hopcache_core::seeded::{Bug, has};
use hopcache_core::tags::Tag;
use hopcache_core::time::{Millis, MonoTime};

/// Between the two halves of a step that should be one.
#[cfg(hopcache_seeded)]
pub(super) const GAP_MS: u64 = 120;

/// Whether this command is carried out in two halves.
pub(super) fn in_two_halves(word: &str) -> bool {
    #[cfg(hopcache_seeded)]
    if has(Bug::ReleaseGetThenDel) && word == "release" || has(Bug::FenceNotAtomic) && word == "commit" {
        return true;
    }
    let _ = word;
    false
}

/// A commit.
pub(super) fn commit(slot: &mut Slot, now: MonoTime, token: Token, entry: Bytes, life: Millis) -> Commit {
    #[cfg(hopcache_seeded)]
    if has(Bug::FenceByOrder) {
        return slot.seeded_commit_by_order(now, token, entry, life);
    }
    slot.commit(now, token, entry, life)
}

/// An invalidation.
pub(super) fn invalidate(slot: &mut Slot, now: MonoTime, only: Option<Tag>) -> bool {
    #[cfg(hopcache_seeded)]
    if has(Bug::InvalidationLeavesLease) {
        let had = slot.entry_end().is_some();
        slot.evict_entry();
        return had;
    }
    slot.invalidate(now, only)
}

/// By which clock a lease's age is read.
pub(super) fn lease_clock(store: MonoTime, node: MonoTime) -> MonoTime {
    #[cfg(hopcache_seeded)]
    if has(Bug::LeaseByNodeClock) {
        return node;
    }
    let _ = node;
    store
}
