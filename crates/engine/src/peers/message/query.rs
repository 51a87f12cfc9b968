//! A query inside a message: its parts, and the asking identity. The key is checked before the query leads to a run.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use hopcache_core::key::{KeyHasher, QueryKey};
use hopcache_core::wire::Piece;
use hopcache_cypher::verdict::Allowed;
use serde::{Deserialize, Serialize};

use super::BadMessage;
use crate::model::ask::{PeerReading, Query, QueryParts};
use crate::model::identity::Identity;
use crate::model::text_facts::TextFacts;

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

/// Finds the facts of a text in a database.
pub type FactsOf<'a> = dyn Fn(&Arc<str>, &Arc<str>) -> Arc<TextFacts> + 'a;

/// What a node reads a sent statement with.
pub struct Lexicon<'a> {
    /// The cluster's.
    pub hasher: &'a KeyHasher,
    /// The functions and procedures that the operator vouches for.
    pub allowed: &'a Allowed,
    /// The facts of a database's text.
    pub facts: &'a FactsOf<'a>,
    /// Called if this node lexes the text, because the sender's reading of the statement is missing or not proved.
    pub on_lexed: &'a dyn Fn(),
}

/// The query with the reading that its sender has told, if that is proved. Otherwise this node lexes the statement.
pub(super) fn told_query(
    parts: QueryParts,
    told: Option<&PeerReading<'_>>,
    sent_key: &QueryKey,
    lexicon: &Lexicon<'_>,
) -> Result<Arc<Query>, BadMessage> {
    let told = told.and_then(|told| {
        let facts = (lexicon.facts)(&parts.database, &parts.statement);
        Query::told(parts.clone(), lexicon.hasher, (*sent_key, told), facts)
    });
    let query = told.or_else(|| {
        (lexicon.on_lexed)();
        Query::read_as(parts, lexicon.hasher, lexicon.allowed, sent_key)
    });
    query.map(Arc::new).ok_or(BadMessage::Key)
}
