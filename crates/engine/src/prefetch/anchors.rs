//! Recent queries by the graph node that they started from: the overlaps of the current query. The owners of their keys
//! decide whether their entries are about to expire.
//!
//! The tag of an anchor contains database and principal, so nothing is found across either (I5).

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::sync::Arc;

use bytes::Bytes;
use hopcache_core::cypher::anchor::Anchor;
use hopcache_core::key::{AnchorTag, KeyHasher, QueryKey};
use hopcache_core::limits::{ANCHOR_QUERIES_MAX, ANCHORS_MAX};
use lru::LruCache;

use crate::model::ask::Query;

/// A query that started from an anchor. Neither the asking identity nor any credentials are kept.
#[derive(Debug, Clone)]
pub(super) struct Anchored {
    pub(super) key: QueryKey,
    pub(super) statement: Arc<str>,
    pub(super) params: Bytes,
}

/// Anchors and the queries that last started there, latest first.
pub(super) struct Anchors(LruCache<AnchorTag, VecDeque<Anchored>>);

impl Anchors {
    pub(super) fn new() -> Self {
        Self(LruCache::new(NonZeroUsize::new(ANCHORS_MAX).unwrap_or(NonZeroUsize::MIN)))
    }

    /// Notes a query, and returns the others that start from the same anchor.
    pub(super) fn others(&mut self, hasher: &KeyHasher, query: &Query) -> Vec<Anchored> {
        let Some(anchor) = Anchor::of(&query.statement, &query.params) else { return Vec::new() };
        let tag = AnchorTag::of(hasher, &query.database, query.identity.scope, &anchor);
        let seen = self.0.get_or_insert_mut(tag, VecDeque::new);
        seen.retain(|other| other.key != query.key);
        let others = seen.iter().cloned().collect();
        let (statement, params) = (Arc::clone(&query.statement), query.params.clone());
        seen.push_front(Anchored { key: query.key, statement, params });
        seen.truncate(ANCHOR_QUERIES_MAX);
        others
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}
