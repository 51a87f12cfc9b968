//! Leases that this node holds, so that it can give them back when it goes.

use std::collections::BTreeMap;
use std::sync::Arc;

use hopcache_core::key::QueryKey;
use hopcache_core::lease::Token;
use parking_lot::Mutex;
use tokio::runtime::Handle;

use crate::engine::Engine;

/// Leases held: one for each run under a lease. Those of flights and refreshes have a seat in a table. Runs of
/// `no-cache` requests have none: like every run they wait in the origin's queue
/// ([`hopcache_core::limits::ORIGIN_WAITING_MAX`]), and for whom there is no place, the run ends at once and the
/// lease is given back.
#[derive(Debug, Default)]
pub(crate) struct Holdings {
    held: Mutex<BTreeMap<(QueryKey, u128), Token>>,
}

impl Holdings {
    pub(crate) fn add(&self, key: QueryKey, token: Token) {
        self.held.lock().insert((key, token.nonce), token);
    }

    pub(crate) fn remove(&self, key: &QueryKey, token: Token) {
        self.held.lock().remove(&(*key, token.nonce));
    }

    pub(crate) fn all(&self) -> Vec<(QueryKey, Token)> {
        self.held.lock().iter().map(|((key, _), token)| (*key, *token)).collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.held.lock().len()
    }
}

/// A lease that a run uses, or is about to. Dropped before the run has ended (a panic, an abort: F4), it is given back, so
/// that the waiters who compete again do not wait for it to lapse.
pub(crate) struct Held<'a> {
    engine: &'a Engine,
    key: QueryKey,
    token: Token,
    is_in_use: bool,
}

impl<'a> Held<'a> {
    pub(crate) fn new(engine: &'a Engine, key: QueryKey, token: Token) -> Self {
        Self { engine, key, token, is_in_use: true }
    }

    /// Still held, and for somebody else to end.
    pub(crate) fn handed_on(self) -> Token {
        let token = self.token;
        std::mem::forget(self);
        token
    }

    /// The run has committed or released it.
    pub(crate) fn ended(mut self) {
        self.is_in_use = false;
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        #[cfg(hopcache_seeded)]
        if self.is_in_use && self.engine.leads_no_more() && crate::seeded::keeps_leases() {
            return;
        }
        self.engine.holdings.remove(&self.key, self.token);
        // No runtime: the process ends, and what is left lapses.
        if self.is_in_use && Handle::try_current().is_ok() {
            let (store, key, token) = (Arc::clone(&self.engine.ports.store), self.key, self.token);
            self.engine.tasks.spawn(async move {
                let _ = store.release(&key, token).await;
            });
        }
    }
}
