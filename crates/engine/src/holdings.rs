//! Leases that this node holds, so that it can give them back when it goes.

use std::collections::HashMap;

use hopcache_core::key::QueryKey;
use hopcache_core::lease::Token;
use parking_lot::Mutex;

/// Leases held: no more than flights and refreshes together, which their tables bound.
#[derive(Debug, Default)]
pub(crate) struct Holdings {
    held: Mutex<HashMap<(QueryKey, u128), Token>>,
}

impl Holdings {
    pub(crate) fn add(&self, key: QueryKey, token: Token) {
        self.held.lock().insert((key, token.nonce), token);
    }

    pub(crate) fn remove(&self, key: &QueryKey, token: Token) {
        self.held.lock().remove(&(*key, token.nonce));
    }

    /// Takes a lease off the list when it is dropped.
    pub(crate) fn while_held(&self, key: QueryKey, token: Token) -> Held<'_> {
        Held { holdings: self, key, token }
    }

    pub(crate) fn all(&self) -> Vec<(QueryKey, Token)> {
        self.held.lock().iter().map(|((key, _), token)| (*key, *token)).collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.held.lock().len()
    }
}

/// A lease that somebody works under.
#[derive(Debug)]
pub(crate) struct Held<'a> {
    holdings: &'a Holdings,
    key: QueryKey,
    token: Token,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.holdings.remove(&self.key, self.token);
    }
}
