//! A store made of core's reference slots, on the simulator's clock, that can be cut off or lose all.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use hopcache_core::key::QueryKey;
use hopcache_core::lease::slot::Slot;
use hopcache_core::lease::{Commit, Grant, LeaseAsk, SlotView, StoredEntry, Token};
use hopcache_core::time::{Millis, MonoTime};
use hopcache_engine::ports::{LogCursor, LogPage, Scope, Store, StoreError};
use parking_lot::Mutex;

use crate::switch::Switch;
use crate::world::sim_now;

/// What the nodes share.
#[derive(Default)]
pub struct SlotStore {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    slots: BTreeMap<QueryKey, Slot>,
    log: Vec<Scope>,
    is_down: bool,
    commits: Vec<(QueryKey, Token, Commit)>,
    grants: u64,
    corrupt: Option<QueryKey>,
}

impl State {
    /// A grant as a store with a flipped bit would give it, fresh value or stale.
    fn as_read(&self, key: &QueryKey, grant: Grant) -> Grant {
        if self.corrupt.as_ref() != Some(key) {
            return grant;
        }
        match grant {
            Grant::Value(stored) => Grant::Value(flipped(stored)),
            Grant::Lease { token, kind, stale } => Grant::Lease { token, kind, stale: stale.map(flipped) },
            Grant::Busy { holder, token, left_ms, stale } => {
                Grant::Busy { holder, token, left_ms, stale: stale.map(flipped) }
            }
        }
    }
}

fn flipped(mut stored: StoredEntry) -> StoredEntry {
    let mut bytes = stored.bytes.to_vec();
    if let Some(last) = bytes.last_mut() {
        *last ^= 1;
    }
    stored.bytes = bytes.into();
    stored
}

impl SlotStore {
    /// Refuses every command until told otherwise.
    pub fn set_down(&self, is_down: bool) {
        self.state.lock().is_down = is_down;
    }

    /// Loses everything, as a store without persistence does when it restarts.
    pub fn lose_everything(&self) {
        self.state.lock().slots.clear();
    }

    /// Every commit that was tried, and what became of it.
    #[must_use]
    pub fn commits(&self) -> Vec<(QueryKey, Token, Commit)> {
        self.state.lock().commits.clone()
    }

    /// Leases granted so far.
    #[must_use]
    pub fn grants(&self) -> u64 {
        self.state.lock().grants
    }

    /// Flips a bit of the entry under `key` whenever it is read, until it is removed.
    pub fn corrupt(&self, key: &QueryKey) {
        self.state.lock().corrupt = Some(*key);
    }

    fn with<T>(&self, act: impl FnOnce(&mut State, MonoTime) -> T) -> Result<T, StoreError> {
        let mut state = self.state.lock();
        if state.is_down {
            return Err(StoreError::Unreachable("cut by the simulation".to_owned()));
        }
        Ok(act(&mut state, store_now()))
    }
}

/// The store's own clock: an hour apart from the nodes', since nobody may depend on it (F23).
fn store_now() -> MonoTime {
    sim_now() + Millis(3_600_000)
}

/// One node's connection to the store.
pub struct StorePort {
    /// The store.
    pub shared: Arc<SlotStore>,
    /// The node's process: a stopped one sends its command when it goes on.
    pub switch: Switch,
}

#[async_trait]
impl Store for StorePort {
    async fn get_or_lease(&self, key: &QueryKey, ask: &LeaseAsk) -> Result<Grant, StoreError> {
        self.switch.on().await;
        self.shared.with(|state, now| {
            let grant = state.slots.entry(*key).or_default().get_or_lease(now, ask);
            state.grants += u64::from(matches!(grant, Grant::Lease { .. }));
            state.as_read(key, grant)
        })
    }

    async fn commit(
        &self,
        key: &QueryKey,
        token: Token,
        entry: Bytes,
        life_ms: Millis,
    ) -> Result<Commit, StoreError> {
        self.switch.on().await;
        self.shared.with(|state, now| {
            let commit = state.slots.entry(*key).or_default().commit(now, token, entry, life_ms);
            state.commits.push((*key, token, commit));
            commit
        })
    }

    async fn renew(&self, key: &QueryKey, token: Token, lease_ms: Millis) -> Result<bool, StoreError> {
        self.switch.on().await;
        self.shared.with(|state, now| state.slots.entry(*key).or_default().renew(now, token, lease_ms))
    }

    async fn release(&self, key: &QueryKey, token: Token) -> Result<bool, StoreError> {
        self.switch.on().await;
        self.shared.with(|state, now| state.slots.entry(*key).or_default().release(now, token))
    }

    async fn steal(&self, key: &QueryKey, dead: Token, ask: &LeaseAsk) -> Result<Grant, StoreError> {
        self.switch.on().await;
        self.shared.with(|state, now| {
            let grant = state.slots.entry(*key).or_default().steal(now, dead, ask);
            state.grants += u64::from(matches!(grant, Grant::Lease { .. }));
            grant
        })
    }

    async fn invalidate(&self, scope: &Scope) -> Result<u64, StoreError> {
        self.switch.on().await;
        self.shared.with(|state, now| {
            state.log.push(scope.clone());
            let mut removed = 0;
            for (key, slot) in &mut state.slots {
                let only = match scope {
                    Scope::Key(wanted) if wanted != key => continue,
                    Scope::Key(_) | Scope::All => None,
                    Scope::Database(tag) => Some(*tag),
                };
                removed += u64::from(slot.invalidate(now, only));
                state.corrupt.take_if(|corrupt| corrupt == key);
            }
            removed
        })
    }

    async fn invalidations_since(&self, cursor: LogCursor) -> Result<LogPage, StoreError> {
        self.switch.on().await;
        self.shared.with(|state, _| {
            let from = usize::try_from(cursor.0).unwrap_or(usize::MAX).min(state.log.len());
            let next = LogCursor(state.log.len() as u64);
            LogPage { scopes: state.log[from..].to_vec(), next, gap: false }
        })
    }

    async fn peek(&self, key: &QueryKey) -> Result<SlotView, StoreError> {
        self.switch.on().await;
        self.shared.with(|state, now| state.slots.get(key).map(|slot| slot.view(now)).unwrap_or_default())
    }

    async fn ping(&self) -> Result<(), StoreError> {
        self.switch.on().await;
        self.shared.with(|_, _| ())
    }
}
