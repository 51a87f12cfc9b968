//! A query inside a message: its parts, and the asking identity. The key is checked before the query leads to a run.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use hopcache_core::key::{KeyHasher, QueryKey};
use hopcache_core::wire::Piece;
use hopcache_cypher::verdict::Allowed;
use serde::{Deserialize, Serialize};

use super::BadMessage;
use crate::model::ask::{Query, QueryParts, ToldReading};
use crate::model::identity::Identity;

/// The parts of a query, and the asking identity.
#[derive(Serialize, Deserialize)]
pub(super) struct SentQuery<'a> {
    database: &'a str,
    statement: &'a str,
    #[serde(borrow)]
    params: Piece<'a>,
    impersonated: Option<&'a str>,
    identity: Cow<'a, Identity>,
}

impl<'a> SentQuery<'a> {
    pub(super) fn of(query: &'a Query) -> Self {
        Self {
            database: &query.database,
            statement: &query.statement,
            params: Piece(&query.params),
            impersonated: query.impersonated.as_deref(),
            identity: Cow::Borrowed(&query.identity),
        }
    }

    /// The parts; `keep` makes the parameters this node's.
    pub(super) fn parts(self, keep: impl FnOnce(&'a [u8]) -> Bytes) -> QueryParts {
        QueryParts {
            database: self.database.into(),
            statement: self.statement.into(),
            params: keep(self.params.0),
            impersonated: self.impersonated.map(str::to_owned),
            identity: Arc::new(self.identity.into_owned()),
        }
    }
}

/// The query with the reading that its sender has told, if that is proved. Otherwise this node lexes the statement, and calls
/// `on_lexed`.
pub(super) fn told_query(
    parts: QueryParts,
    told: Option<&ToldReading<'_>>,
    sent_key: &QueryKey,
    (hasher, allowed, on_lexed): (&KeyHasher, &Allowed, &dyn Fn()),
) -> Result<Arc<Query>, BadMessage> {
    let query = told.and_then(|told| Query::told(parts.clone(), hasher, *sent_key, told)).or_else(|| {
        on_lexed();
        Query::read_as(parts, hasher, allowed, sent_key)
    });
    query.map(Arc::new).ok_or(BadMessage::Key)
}
