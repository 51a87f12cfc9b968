//! The types of the lease protocol, shared by every store (DESIGN "Lease protocol").
//!
//! A lease is the right to run the origin for one key and store the result. It is granted with a fence token, and a
//! commit succeeds only with the token of the lease that is current *now*: equality of counter and nonce, never `>=`
//! (after a fail-over to a lagging replica counters repeat). Without a lease the store refuses (promise I3).

use bytes::Bytes;

use crate::node::Holder;
use crate::tags::Tags;
use crate::time::Millis;

pub mod life;
pub mod log;
pub mod slot;

/// Fence token of a lease. The counter orders leases while the store's clock is sane. The nonce, which the asking node
/// draws at random, distinguishes two leases even if it is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Token {
    /// `max(last + 1, store's clock in µs)`.
    pub counter: u64,
    /// 128 random bits of the asking node.
    pub nonce: u128,
}

/// A node's request for a value or the right to compute it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseAsk {
    /// Nonce of the token that may be granted.
    pub nonce: u128,
    /// The asking node.
    pub holder: Holder,
    /// The tags of the result: an invalidation of any of them ends the lease.
    pub tags: Tags,
    /// Life of the lease unless renewed.
    pub lease_ms: Millis,
    /// Entries older than this do not count as a value (a client's `max-age`; 0 for `no-cache`).
    pub age_max_ms: Option<Millis>,
    /// Entries younger than this count as a value also past their soft life: the asking node finds out whether they are proved.
    pub proved_max_ms: Millis,
}

/// An entry as the store has it, with the life that it has left there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredEntry {
    /// Encoded entry ([`crate::entry`]).
    pub bytes: Bytes,
    /// Life left. With the total life in the entry's header this gives the age on one clock only.
    pub left_ms: Millis,
}

crate::words! {
    /// Why a lease was free.
    pub enum GrantKind {
        /// Nobody held one.
        Free = "free",
        /// The previous one lapsed.
        Expired = "expired",
        /// The previous one was taken from a holder known to be dead.
        Stolen = "stolen",
    }
}

/// The store's answer to a [`LeaseAsk`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Grant {
    /// There is a fresh value, or one that may be proved.
    Value(StoredEntry),
    /// The asking node may run the origin.
    Lease {
        /// Token for the commit.
        token: Token,
        /// Why it was free.
        kind: GrantKind,
        /// A value that is not fresh, or too old for the asking node, if there is one: stale, or dead and kept for
        /// stale-if-error. Its times show which.
        stale: Option<StoredEntry>,
    },
    /// Another holder has the lease.
    Busy {
        /// That holder.
        holder: Holder,
        /// Its token, which [`steal`](GrantKind::Stolen) has to name.
        token: Token,
        /// Its time left, unless renewed.
        left_ms: Millis,
        /// As in [`Grant::Lease`].
        stale: Option<StoredEntry>,
    },
}

/// The store's answer to a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Commit {
    /// The entry is stored, and the lease is gone.
    Stored,
    /// The token is not the current lease's; nothing changed.
    Fenced,
}

/// A store's content under one key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SlotView {
    /// The entry.
    pub entry: Option<StoredEntry>,
    /// Holder, token and life left of the lease.
    pub lease: Option<(Holder, Token, Millis)>,
}
