//! The lease protocol's words, shared by every store (DESIGN "Lease protocol").
//!
//! A lease is the right to run the origin for one key and store the result. It is granted with a
//! fence token, and a commit succeeds only with the token of the lease that is current *now*: equality
//! of counter and nonce, never `>=` (after a fail-over to a lagging replica counters repeat), and a
//! missing lease refuses (promise I3).

use bytes::Bytes;

use crate::node::Holder;
use crate::tags::Tags;
use crate::time::Millis;

pub mod life;
pub mod log;
pub mod slot;

/// Fence token of a lease. The counter orders leases where the store's clock is sane; the nonce,
/// drawn at random by who asks, tells two leases apart even where it is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Token {
    /// `max(last + 1, store's clock in µs)`.
    pub counter: u64,
    /// 128 random bits of the asking node.
    pub nonce: u128,
}

/// What a node says when it asks for a value or the right to compute it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseAsk {
    /// Nonce of the token that may be granted.
    pub nonce: u128,
    /// Who asks.
    pub holder: Holder,
    /// What the result will depend on: an invalidation of any of it ends the lease.
    pub tags: Tags,
    /// Life of the lease unless renewed.
    pub lease_ms: Millis,
    /// Entries older than this do not count as a value (a client's `max-age`; 0 for `no-cache`).
    pub age_max_ms: Option<Millis>,
}

/// An entry as the store has it, with the store's word on how much of its life is left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredEntry {
    /// Encoded entry ([`crate::entry`]).
    pub bytes: Bytes,
    /// Life left. With the total life in the entry's header this gives the age on one clock only.
    pub left_ms: Millis,
}

/// How a lease came to be free.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GrantKind {
    /// Nobody held one.
    Free,
    /// The one before lapsed.
    Expired,
    /// The one before was taken from a holder known to be dead.
    Stolen,
}

/// The store's answer to a [`LeaseAsk`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Grant {
    /// There is a fresh value.
    Value(StoredEntry),
    /// The asker may run the origin.
    Lease {
        /// Token to commit with.
        token: Token,
        /// How it came to be free.
        kind: GrantKind,
        /// A value that is not fresh, or too old for the asker, if one is left: stale, or dead and kept for
        /// stale-if-error. Which of them, its times say.
        stale: Option<StoredEntry>,
    },
    /// Somebody else may.
    Busy {
        /// Who.
        holder: Holder,
        /// With which token (what [`steal`](GrantKind::Stolen) has to name).
        token: Token,
        /// Until when, from now, unless renewed.
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

/// What a store holds under one key, for `explain`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SlotView {
    /// The entry.
    pub entry: Option<StoredEntry>,
    /// Holder, token and life left of the lease.
    pub lease: Option<(Holder, Token, Millis)>,
}
