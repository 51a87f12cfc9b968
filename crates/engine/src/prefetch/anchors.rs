//! Recent queries by the graph node that they started from: the overlaps of the current query. The owners of their keys
//! decide whether their entries are about to expire.
//!
//! The tag of an anchor contains database and principal, so nothing is found across either (I5).

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::sync::Arc;

use bytes::Bytes;
use hopcache_core::key::{AnchorTag, KeyHasher, QueryKey};
use hopcache_core::limits::{ANCHOR_QUERIES_MAX, ANCHORS_MAX};
use lru::LruCache;

use crate::model::ask::Query;

/// A query that started from an anchor. Neither the asking identity nor any credentials are kept.
#[derive(Debug, Clone)]
pub(super) struct AnchoredQuery {
    pub(super) key: QueryKey,
    pub(super) statement: Arc<str>,
    pub(super) params: Bytes,
}

/// Anchors and the queries that last started there, latest first.
pub(super) struct Anchors(LruCache<AnchorTag, VecDeque<AnchoredQuery>>);

impl Anchors {
    pub(super) fn new() -> Self {
        Self(LruCache::new(NonZeroUsize::new(ANCHORS_MAX).unwrap_or(NonZeroUsize::MIN)))
    }

    /// Notes a query of this anchor, and returns the others that start there.
    pub(super) fn others(&mut self, tag: AnchorTag, query: &Query) -> Vec<AnchoredQuery> {
        let seen = self.0.get_or_insert_mut(tag, VecDeque::new);
        seen.retain(|other| other.key != query.key);
        let others = seen.iter().cloned().collect();
        // Copied: a slice would keep the whole message of a forwarded request alive, with its credentials.
        let (statement, params) = (Arc::clone(&query.statement), Bytes::copy_from_slice(&query.params));
        seen.push_front(AnchoredQuery { key: query.key, statement, params });
        seen.truncate(ANCHOR_QUERIES_MAX);
        others
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

/// Where a query starts. A text that is new is parsed, so ask this outside of locks.
pub(super) fn anchor_of(hasher: &KeyHasher, query: &Query) -> Option<AnchorTag> {
    let anchor = query.facts().anchor(&query.params)?;
    Some(AnchorTag::of(hasher, &query.database, query.identity.scope, anchor.parts()))
}

#[cfg(test)]
mod tests {
    use hopcache_core::key::PrincipalScope;
    use hopcache_packstream::{Value, encode_canonical};

    use super::*;
    use crate::model::ask::QueryParts;
    use crate::model::identity::{Credentials, Identity};

    /// A remembered query keeps nothing of the message in which it came: the message has credentials.
    #[test]
    fn a_remembered_query_does_not_hold_its_message() {
        let hasher = KeyHasher::new(b"a test's cluster key");
        let params = encode_canonical(&Value::Map(vec![("id".to_owned(), Value::Int(7))]));
        let message = Bytes::from([&params[..], b"and a password"].concat());
        let identity = Arc::new(Identity {
            scope: PrincipalScope::of(&hasher, "basic", "ann", None),
            fingerprint: [0; 32],
            credentials: Credentials::None,
        });
        let query = |returned: &str| {
            let parts = QueryParts {
                database: "neo4j".into(),
                statement: format!("MATCH (p:Person {{id: $id}}) RETURN {returned}").into(),
                params: message.slice(..params.len()),
                impersonated: None,
                identity: Arc::clone(&identity),
            };
            Query::read(parts, &hasher, &hopcache_cypher::verdict::Allowed::default())
        };
        let mut anchors = Anchors::new();
        let tag = anchor_of(&hasher, &query("p.name")).unwrap();
        assert_eq!(anchor_of(&hasher, &query("p.age")), Some(tag));
        assert!(anchors.others(tag, &query("p.name")).is_empty());
        let others = anchors.others(tag, &query("p.age"));
        assert_eq!(others[0].params, params);
        assert!(!message.as_ptr_range().contains(&others[0].params.as_ptr()));
    }
}
