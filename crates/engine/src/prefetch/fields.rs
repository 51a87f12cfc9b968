//! The fields of results that templates take their parameters from. The owner of a session, and a node with a near copy,
//! ask the owners of keys for them, and remember them for a moment: after a write they are others. An owner reads them
//! from its memory each time, and gives none if it has no copy: this never causes a run or a read from the store.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::join_all;
use hopcache_core::key::QueryKey;
use hopcache_core::limits::{FIELDS_ASK_MS, FIELDS_ASKED_MAX, FIELDS_KEPT_MAX, FIELDS_KEPT_MS};
use hopcache_core::node::NodeName;
use hopcache_core::result::ResultSet;
use hopcache_core::time::{Millis, MonoTime};
use hopcache_learning::fields::Fields;
use lru::LruCache;
use parking_lot::Mutex;

use crate::peers;
use crate::peers::message::encode_fields;
use crate::prefetch::Prefetch;

/// Fields by the key of their query.
pub(super) type FieldsByKey = BTreeMap<QueryKey, Arc<Fields>>;

/// Fields that other nodes gave a moment ago, each with the time since which they are known.
pub(super) struct KnownFields(Mutex<LruCache<QueryKey, (Arc<Fields>, MonoTime)>>);

impl KnownFields {
    pub(super) fn new() -> Self {
        let most = NonZeroUsize::new(FIELDS_KEPT_MAX).unwrap_or(NonZeroUsize::MIN);
        Self(Mutex::new(LruCache::new(most)))
    }

    fn get(&self, key: &QueryKey, now: MonoTime) -> Option<Arc<Fields>> {
        let mut known = self.0.lock();
        let (fields, since) = known.get(key)?;
        (now.since(*since) < Millis(FIELDS_KEPT_MS)).then(|| Arc::clone(fields))
    }

    pub(super) fn len(&self) -> usize {
        self.0.lock().len()
    }

    fn keep(&self, key: QueryKey, fields: Arc<Fields>, now: MonoTime) {
        self.0.lock().put(key, (fields, now));
    }
}

impl Prefetch {
    /// The fields of the results under these keys, if they are available at once.
    pub(super) async fn fields_of(&self, keys: BTreeSet<QueryKey>) -> FieldsByKey {
        let now = self.context.now();
        let view = self.routing.view();
        let mut known = FieldsByKey::new();
        let mut wanted: BTreeMap<NodeName, Vec<QueryKey>> = BTreeMap::new();
        for key in keys {
            let another = view.owner(&key).filter(|owner| *owner != self.context.node());
            let fields = match another {
                Some(_) => self.learning.transitions.fields.get(&key, now),
                None => self.fields_known(&key),
            };
            match (fields, another) {
                (Some(fields), _) => drop(known.insert(key, fields)),
                (None, Some(owner)) => wanted.entry(owner.clone()).or_default().push(key),
                (None, None) => {}
            }
        }
        let questions = wanted.iter().flat_map(|(owner, keys)| {
            keys.chunks(FIELDS_ASKED_MAX).map(move |keys| self.ask_for_fields(owner, keys))
        });
        for (key, fields) in join_all(questions).await.into_iter().flatten() {
            let Some(fields) = fields else { continue };
            self.learning.transitions.fields.keep(key, Arc::clone(&fields), now);
            known.insert(key, fields);
        }
        known
    }

    async fn ask_for_fields(
        &self,
        owner: &NodeName,
        keys: &[QueryKey],
    ) -> Vec<(QueryKey, Option<Arc<Fields>>)> {
        let answer = self.peers.ask(owner, peers::fields(keys), Millis(FIELDS_ASK_MS)).await;
        let fields = answer.unwrap_or_default().into_iter().map(|fields| fields.map(Arc::new));
        keys.iter().copied().zip(fields).collect()
    }

    /// The fields of this node's copy. Near copies and copies that no store has taken do not count.
    pub(super) fn fields_here(&self, key: &QueryKey) -> Option<Arc<Fields>> {
        let copy = self.cache.look(key)?;
        copy.token()?;
        let result = ResultSet::from_bytes(&copy.stored_form()).ok()?;
        Some(Arc::new(Fields::of(&result)))
    }

    /// The fields of this node's copy, or those that the owner of the key gave not long ago.
    pub(super) fn fields_known(&self, key: &QueryKey) -> Option<Arc<Fields>> {
        self.fields_here(key).or_else(|| self.learning.transitions.fields.get(key, self.context.now()))
    }

    /// Answers another node's question, from memory.
    pub(crate) fn give_fields(&self, keys: &[QueryKey]) -> Bytes {
        encode_fields(keys.iter().map(|key| self.fields_here(key)))
    }
}
