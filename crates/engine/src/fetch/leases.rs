//! Leases that this node holds. Each is given back however its run ends, and all of them when the node leaves.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::StreamExt;
use hopcache_core::key::QueryKey;
use hopcache_core::lease::Token;
use hopcache_core::limits;
use hopcache_core::time::{Millis, MonoTime};
use parking_lot::Mutex;
use tokio::runtime::Handle;

use crate::cache::WatchedStore;
use crate::model::context::Context;
use crate::model::ports::Store;

/// Leases held: one for each run under a lease. A run waits in the origin's queue
/// ([`hopcache_core::limits::ORIGIN_WAITING_MAX`]). A run without a place there ends at once and gives its lease back.
pub(crate) struct Leases {
    context: Context,
    store: Arc<WatchedStore>,
    held: Mutex<BTreeMap<(QueryKey, u128), Token>>,
}

impl Leases {
    pub(super) fn new(context: &Context, store: &Arc<WatchedStore>) -> Arc<Self> {
        Arc::new(Self { context: context.clone(), store: Arc::clone(store), held: Mutex::default() })
    }

    /// A lease that the store has granted for `lease_ms` to a question of `asked`. `has_entry`: with an entry beside it.
    pub(super) fn granted(
        self: &Arc<Self>,
        (key, token): (QueryKey, Token),
        (lease_ms, asked): (Millis, MonoTime),
        has_entry: bool,
    ) -> HeldLease {
        self.held.lock().insert((key, token.nonce), token);
        let ends = asked + lease_ms;
        HeldLease { leases: Arc::clone(self), key, token, lease_ms, ends, has_entry, is_in_use: true }
    }

    /// Leases held.
    pub(super) fn len(&self) -> usize {
        self.held.lock().len()
    }

    /// Releases every lease, so that nobody waits for them to lapse. A lease that could not be released stays.
    pub(super) async fn give_back_all(&self) {
        let held: Vec<_> = self.held.lock().iter().map(|((key, _), token)| (*key, *token)).collect();
        let give_back = async |(key, token): (QueryKey, Token)| {
            if self.store.release(&key, token).await.is_ok() {
                self.remove(&key, token);
            }
        };
        let held = futures_util::stream::iter(held);
        held.for_each_concurrent(limits::LEASES_RELEASED_AT_A_TIME, give_back).await;
    }

    fn remove(&self, key: &QueryKey, token: Token) {
        self.held.lock().remove(&(*key, token.nonce));
    }
}

/// A lease that a run uses, or is about to use. If it is dropped before the run has ended (a panic, an abort: F4), it
/// is given back, so that waiters who compete again do not wait for it to lapse.
pub(crate) struct HeldLease {
    leases: Arc<Leases>,
    key: QueryKey,
    token: Token,
    lease_ms: Millis,
    ends: MonoTime,
    has_entry: bool,
    is_in_use: bool,
}

impl HeldLease {
    /// Its fence token.
    pub(crate) fn token(&self) -> Token {
        self.token
    }

    /// The length that the store was asked for. Renewals are paced by it: by the pattern's newer, longer tail, a
    /// renewal would come after this lease had lapsed.
    pub(super) fn lease_ms(&self) -> Millis {
        self.lease_ms
    }

    /// Its end by this node's clock, without renewals: it counts from when it was asked for.
    pub(super) fn ends(&self) -> MonoTime {
        self.ends
    }

    /// Whether the store had an entry of the key when it granted the lease. Readers may find that until the commit.
    pub(super) fn has_entry(&self) -> bool {
        self.has_entry
    }

    /// The run has committed or released it.
    pub(super) fn ended(mut self) {
        self.is_in_use = false;
    }
}

impl std::fmt::Debug for HeldLease {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("HeldLease")
            .field("key", &self.key)
            .field("token", &self.token)
            .finish_non_exhaustive()
    }
}

impl Drop for HeldLease {
    fn drop(&mut self) {
        self.leases.remove(&self.key, self.token);
        // Without a runtime the process is ending, and the lease lapses.
        if self.is_in_use && Handle::try_current().is_ok() {
            let (leases, key, token) = (Arc::clone(&self.leases), self.key, self.token);
            self.leases.context.spawn(async move {
                let _ = leases.store.release(&key, token).await;
            });
        }
    }
}
