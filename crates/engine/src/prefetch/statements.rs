//! Statements as learning sees them: each text is lexed once, and remembered for the next request with other
//! parameters. It decides nothing.

use std::num::NonZeroUsize;
use std::sync::Arc;

use hopcache_core::cypher::normal::NormalForm;
use hopcache_core::cypher::pattern::{PatternId, pattern};
use hopcache_core::key::{KeyHasher, PrincipalScope, QueryKey};
use hopcache_core::limits::READ_STATEMENTS_MAX;
use hopcache_learning::form::RealmTag;
use hopcache_learning::{PatternTag, QueryTag};
use lru::LruCache;
use parking_lot::Mutex;

/// A statement that was read.
#[derive(Debug)]
pub(super) struct ReadStatement {
    pub(super) normal: NormalForm,
    /// Its pattern, for estimates of cost.
    pub(super) id: PatternId,
    /// Its pattern as text.
    pub(super) pattern: String,
}

/// The names under which lessons about a query are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Names {
    pub(super) pattern: PatternTag,
    pub(super) query: QueryTag,
    pub(super) realm: RealmTag,
}

/// The statements that were read last.
pub(super) struct Statements(Mutex<LruCache<Arc<str>, Arc<ReadStatement>>>);

impl Statements {
    pub(super) fn new() -> Self {
        let most = NonZeroUsize::new(READ_STATEMENTS_MAX).unwrap_or(NonZeroUsize::MIN);
        Self(Mutex::new(LruCache::new(most)))
    }

    pub(super) fn read(&self, statement: &Arc<str>) -> Arc<ReadStatement> {
        if let Some(known) = self.0.lock().get(statement) {
            return Arc::clone(known);
        }
        let read = Arc::new(ReadStatement {
            normal: NormalForm::of(statement),
            id: PatternId::of(statement),
            pattern: pattern(statement),
        });
        self.0.lock().put(Arc::clone(statement), Arc::clone(&read));
        read
    }

    pub(super) fn len(&self) -> usize {
        self.0.lock().len()
    }
}

impl ReadStatement {
    /// The names of the query with this key and statement, in a database, of a principal.
    pub(super) fn names(
        &self,
        hasher: &KeyHasher,
        key: &QueryKey,
        (database, scope): (&str, PrincipalScope),
    ) -> Names {
        Names {
            pattern: PatternTag::of(hasher, database, scope, &self.pattern),
            query: QueryTag::of(hasher, key),
            realm: RealmTag::of(hasher, database, scope),
        }
    }
}
