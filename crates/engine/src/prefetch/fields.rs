//! The fields of results that templates take their parameters from. A node that considers an answer has its copy, and
//! reads them there. A node that learns from a session asks the owners of keys for them, and remembers them for a while.
//! An owner gives none if it has no copy: this never causes a run or a read from the store.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::join_all;
use hopcache_core::key::QueryKey;
use hopcache_core::lease::Token;
use hopcache_core::limits::{FIELDS_ASK_MS, FIELDS_ASKED_MAX, FIELDS_KEPT_MAX, FIELDS_KEPT_MS};
use hopcache_core::node::NodeName;
use hopcache_core::result::ResultSet;
use hopcache_core::time::{Millis, MonoTime};
use hopcache_learning::fields::Fields;
use lru::LruCache;
use parking_lot::Mutex;

use crate::peers::FieldsWanted;
use crate::peers::message::encode_fields;
use crate::prefetch::Prefetch;

/// Fields by the key of their query.
pub(super) type FieldsByKey = BTreeMap<QueryKey, Arc<Fields>>;

/// Fields that are remembered.
struct Known {
    fields: Arc<Fields>,
    /// The copy of this node from which they were read; `None` if another node gave them.
    copy: Option<Token>,
    since: MonoTime,
}

/// Fields that were read or asked for not long ago.
pub(super) struct KnownFields(Mutex<LruCache<QueryKey, Known>>);

impl KnownFields {
    pub(super) fn new() -> Self {
        let most = NonZeroUsize::new(FIELDS_KEPT_MAX).unwrap_or(NonZeroUsize::MIN);
        Self(Mutex::new(LruCache::new(most)))
    }

    fn get(&self, key: &QueryKey, now: MonoTime) -> Option<Arc<Fields>> {
        let mut known = self.0.lock();
        let Known { fields, since, .. } = known.get(key)?;
        (now.since(*since) < Millis(FIELDS_KEPT_MS)).then(|| Arc::clone(fields))
    }

    fn of_copy(&self, key: &QueryKey, copy: Token) -> Option<Arc<Fields>> {
        let mut known = self.0.lock();
        known.get(key).filter(|known| known.copy == Some(copy)).map(|known| Arc::clone(&known.fields))
    }

    pub(super) fn len(&self) -> usize {
        self.0.lock().len()
    }

    fn keep(&self, key: QueryKey, known: Known) {
        self.0.lock().put(key, known);
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
            let found = match view.owner(&key) {
                Some(owner) if owner != self.context.node() => {
                    let remembered = self.learning.lessons.fields.get(&key, now);
                    if remembered.is_none() {
                        match wanted.get_mut(owner) {
                            Some(theirs) => theirs.push(key),
                            None => drop(wanted.insert(owner.clone(), vec![key])),
                        }
                    }
                    remembered
                }
                _ => self.fields_here(&key).or_else(|| self.learning.lessons.fields.get(&key, now)),
            };
            known.extend(found.map(|fields| (key, fields)));
        }
        let questions = wanted.iter().flat_map(|(owner, keys)| {
            keys.chunks(FIELDS_ASKED_MAX).map(move |keys| self.ask_for_fields(owner, keys))
        });
        for (key, fields) in join_all(questions).await.into_iter().flatten() {
            let Some(fields) = fields else { continue };
            let remembered = Known { fields: Arc::clone(&fields), copy: None, since: now };
            self.learning.lessons.fields.keep(key, remembered);
            known.insert(key, fields);
        }
        known
    }

    async fn ask_for_fields(
        &self,
        owner: &NodeName,
        keys: &[QueryKey],
    ) -> Vec<(QueryKey, Option<Arc<Fields>>)> {
        let answer = self.peers.ask(owner, &FieldsWanted(keys), Millis(FIELDS_ASK_MS)).await;
        keys.iter().copied().zip(answer.unwrap_or_default()).collect()
    }

    /// The fields of this node's copy. Near copies and copies that no store has taken do not count.
    pub(super) fn fields_here(&self, key: &QueryKey) -> Option<Arc<Fields>> {
        let copy = self.cache.look(key)?;
        let token = copy.token()?;
        let known = &self.learning.lessons.fields;
        if let Some(fields) = known.of_copy(key, token) {
            return Some(fields);
        }
        let result = ResultSet::from_bytes(&copy.stored_form()).ok()?;
        let fields = Arc::new(Fields::of(&result));
        let since = self.context.now();
        known.keep(*key, Known { fields: Arc::clone(&fields), copy: Some(token), since });
        Some(fields)
    }

    /// Answers another node's question, from memory.
    pub(crate) fn give_fields(&self, keys: &[QueryKey]) -> Bytes {
        encode_fields(keys.iter().map(|key| self.fields_here(key)))
    }
}
