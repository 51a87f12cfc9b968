//! The shared store, watched: every answer updates the store's state. Other rooms use the store through this.
//!
//! It changes no answer and repeats no command.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use hopcache_core::bookmark::DatabaseUuid;
use hopcache_core::key::{ClusterTag, DatabaseTag, QueryKey, ServerTag};
use hopcache_core::lease::{Commit, Grant, LeaseAsk, SlotView, Token};
use hopcache_core::node::NodeName;
use hopcache_core::proof::Report;
use hopcache_core::time::Millis;
use hopcache_core::write_position::{EventCursor, WriteEvent, WriteRecord};
use parking_lot::Mutex;

use crate::model::context::Context;
use crate::model::event::Event;
use crate::model::ports::{LeaseEnd, LogCursor, LogPage, Scope, Store, StoreError, StorePoll, StoreReceipt};

/// A store, and its trouble according to its last answers.
pub struct WatchedStore {
    store: Arc<dyn Store>,
    context: Context,
    trouble: Mutex<StoreTrouble>,
}

/// The store's trouble.
#[derive(Default)]
struct StoreTrouble {
    /// The store refuses writes (full, a replica). It still answers reads, so only a ping, which writes, ends this.
    refusal: Option<StoreError>,
    /// The store does not answer. Any answer ends this.
    silence: Option<StoreError>,
}

impl StoreTrouble {
    fn error(&self) -> Option<&StoreError> {
        self.silence.as_ref().or(self.refusal.as_ref())
    }

    fn take(&mut self, error: &StoreError) {
        match error {
            StoreError::Refused(_) => *self = Self { refusal: Some(error.clone()), silence: None },
            _ => self.silence = Some(error.clone()),
        }
    }
}

impl WatchedStore {
    pub(crate) fn new(store: Arc<dyn Store>, context: Context) -> Arc<Self> {
        Arc::new(Self { store, context, trouble: Mutex::default() })
    }

    /// The store's trouble; `None` when it answers and takes writes.
    #[must_use]
    pub fn trouble(&self) -> Option<StoreError> {
        self.trouble.lock().error().cloned()
    }

    /// Whether the store answers and takes writes.
    #[must_use]
    pub fn is_reachable(&self) -> bool {
        self.trouble.lock().error().is_none()
    }

    /// Asks a store that refused a write whether it still does.
    pub(crate) async fn ask_refusing(&self) {
        if self.trouble.lock().refusal.is_some() {
            let _ = self.ping().await;
        }
    }

    /// A refusal stays until a ping is answered. The ping also shows whether the store is silent meanwhile, so a single
    /// late command is no trouble beside the refusal.
    fn saw<T>(&self, answer: Result<T, StoreError>) -> Result<T, StoreError> {
        let mut trouble = self.trouble.lock();
        match &answer {
            Ok(_) => trouble.silence = None,
            Err(error) => {
                if trouble.refusal.is_none() || matches!(error, StoreError::Refused(_)) {
                    trouble.take(error);
                }
                drop(trouble);
                self.context.note(Event::StoreFault);
            }
        }
        answer
    }
}

#[async_trait]
impl Store for WatchedStore {
    async fn get_or_lease(&self, key: &QueryKey, ask: &LeaseAsk) -> Result<Grant, StoreError> {
        self.saw(self.store.get_or_lease(key, ask).await)
    }

    async fn commit(
        &self,
        key: &QueryKey,
        token: Token,
        entry: Bytes,
        life_ms: Millis,
    ) -> Result<Commit, StoreError> {
        self.saw(self.store.commit(key, token, entry, life_ms).await)
    }

    async fn renew(&self, key: &QueryKey, token: Token, lease_ms: Millis) -> Result<bool, StoreError> {
        self.saw(self.store.renew(key, token, lease_ms).await)
    }

    async fn release(&self, key: &QueryKey, token: Token) -> Result<bool, StoreError> {
        self.saw(self.store.release(key, token).await)
    }

    async fn end_leases(&self, ends: &[LeaseEnd]) -> Vec<Result<bool, StoreError>> {
        let answers = self.store.end_leases(ends).await;
        answers.into_iter().map(|answer| self.saw(answer)).collect()
    }

    async fn steal(&self, key: &QueryKey, dead: Token, ask: &LeaseAsk) -> Result<Grant, StoreError> {
        self.saw(self.store.steal(key, dead, ask).await)
    }

    async fn invalidate(&self, scope: &Scope) -> Result<u64, StoreError> {
        self.saw(self.store.invalidate(scope).await)
    }

    async fn invalidations_since(&self, cursor: LogCursor) -> Result<LogPage, StoreError> {
        self.saw(self.store.invalidations_since(cursor).await)
    }

    async fn tell_written(
        &self,
        cluster: ClusterTag,
        told: (&[WriteRecord], &[WriteEvent]),
    ) -> Result<StoreReceipt, StoreError> {
        self.saw(self.store.tell_written(cluster, told).await)
    }

    async fn hear_written(
        &self,
        cluster: ClusterTag,
        listener: (&NodeName, Millis),
        since: Option<EventCursor>,
    ) -> Result<StorePoll, StoreError> {
        self.saw(self.store.hear_written(cluster, listener, since).await)
    }

    async fn report(&self, cluster: ClusterTag, report: &Report) -> Result<(), StoreError> {
        self.saw(self.store.report(cluster, report).await)
    }

    async fn remember(
        &self,
        cluster: ClusterTag,
        at: (ServerTag, DatabaseTag),
        said: Option<DatabaseUuid>,
    ) -> Result<Option<DatabaseUuid>, StoreError> {
        self.saw(self.store.remember(cluster, at, said).await)
    }

    async fn peek(&self, key: &QueryKey) -> Result<SlotView, StoreError> {
        self.saw(self.store.peek(key).await)
    }

    /// The only command that shows whether the store takes writes.
    async fn ping(&self) -> Result<(), StoreError> {
        let answer = self.store.ping().await;
        let mut trouble = self.trouble.lock();
        match &answer {
            Ok(()) => *trouble = StoreTrouble::default(),
            Err(error) => trouble.take(error),
        }
        answer
    }
}
