//! Recent queries by the graph node that they started from: what overlaps with a query at hand. It decides nothing about
//! how likely they are, nor whether their entries are about to expire: the owners of their keys do.
//!
//! The tag of an anchor has database and principal in it, so nothing is found across either (I5).

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::sync::Arc;

use hopcache_core::cypher::anchor::Anchor;
use hopcache_core::key::{AnchorTag, KeyHasher};
use hopcache_core::limits::{ANCHOR_QUERIES_MAX, ANCHORS_MAX};
use lru::LruCache;

use crate::ask::Query;

/// Anchors and the queries that were last seen to start there, latest first.
pub(super) struct Anchors(LruCache<AnchorTag, VecDeque<Arc<Query>>>);

impl Anchors {
    pub(super) fn new() -> Self {
        Self(LruCache::new(NonZeroUsize::new(ANCHORS_MAX).unwrap_or(NonZeroUsize::MIN)))
    }

    /// Takes note of a query, and gives the others that started where it does.
    pub(super) fn others(&mut self, hasher: &KeyHasher, query: &Arc<Query>) -> Vec<Arc<Query>> {
        let Some(anchor) = Anchor::of(&query.statement, &query.params) else { return Vec::new() };
        let tag = AnchorTag::of(hasher, &query.database, query.identity.scope, &anchor);
        let seen = self.0.get_or_insert_mut(tag, VecDeque::new);
        seen.retain(|other| other.key != query.key);
        let others = seen.iter().cloned().collect();
        seen.push_front(Arc::clone(query));
        seen.truncate(ANCHOR_QUERIES_MAX);
        others
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}
