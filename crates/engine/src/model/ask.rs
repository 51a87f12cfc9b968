//! What a client asks, as far as the engine cares: a query, a rendering, and how fresh the answer has to be.
//!
//! Nothing here knows a protocol: a front reads the request and says it in these words.

use std::sync::Arc;

use bytes::Bytes;
use hopcache_core::cypher::normal::NormalForm;
use hopcache_core::cypher::pattern::PatternId;
use hopcache_core::cypher::verdict::Lexed;
use hopcache_core::key::{DatabaseTag, KeyHasher, KeyMaterial, QueryKey};
use hopcache_core::tags::Tags;
use hopcache_core::time::{Millis, MonoTime};
use hopcache_core::turns::RunClass;

use crate::model::identity::Identity;
use crate::model::origin_run::{AccessMode, OriginRun};
use crate::model::rendering::RenderingId;

/// A statement with everything that decides its answer.
#[derive(Debug, Clone)]
pub struct Query {
    /// What decides whether another request may share the answer.
    pub key: QueryKey,
    /// What its answer depends on: what an invalidation of it names.
    pub tags: Tags,
    /// Database name as the client gave it.
    pub database: Arc<str>,
    /// Statement as the client gave it: error positions refer to it.
    pub statement: Arc<str>,
    /// Its normal form: what the server's word on it is remembered by.
    pub normal: NormalForm,
    /// Literal- and parameter-free form, for what runs of its kind cost.
    pub pattern: PatternId,
    /// What the lexer makes of it.
    pub lexed: Lexed,
    /// Parameters: one canonical PackStream map.
    pub params: Bytes,
    /// User to act as, if another.
    pub impersonated: Option<String>,
    /// As whom.
    pub identity: Arc<Identity>,
}

/// What a [`Query`] is made of.
#[derive(Debug, Clone)]
pub struct QueryParts {
    /// Database name as the client gave it.
    pub database: Arc<str>,
    /// Statement as the client gave it.
    pub statement: Arc<str>,
    /// One canonical PackStream map.
    pub params: Bytes,
    /// User to act as, if another.
    pub impersonated: Option<String>,
    /// As whom.
    pub identity: Arc<Identity>,
}

impl Query {
    /// Reads a statement: normal form, lexer's verdict, key. `procedures` are those beyond the built-in
    /// list that the operator vouches for.
    #[must_use]
    pub fn read(parts: QueryParts, hasher: &KeyHasher, procedures: &[String]) -> Self {
        let normal = NormalForm::of(&parts.statement);
        let key = hasher.query_key(&KeyMaterial {
            database: &parts.database,
            scope: parts.identity.scope,
            normal: &normal,
            params: &parts.params,
        });
        Self {
            key,
            tags: Tags::of_database(DatabaseTag::of(hasher, &parts.database)),
            lexed: Lexed::of(&parts.statement, procedures).with_params(&parts.params),
            pattern: PatternId::of(&parts.statement),
            normal,
            database: parts.database,
            statement: parts.statement,
            params: parts.params,
            impersonated: parts.impersonated,
            identity: parts.identity,
        }
    }

    /// The run of this query at the origin, reading only.
    #[must_use]
    pub(crate) fn reading(&self, bounds: RunBounds, traceparent: Option<String>) -> OriginRun {
        OriginRun {
            identity: Arc::clone(&self.identity),
            impersonated: self.impersonated.clone(),
            database: Arc::clone(&self.database),
            statement: Arc::clone(&self.statement),
            params: self.params.clone(),
            mode: AccessMode::Read,
            bookmarks: Vec::new(),
            timeout_ms: bounds.timeout_ms,
            bytes_max: bounds.bytes_max,
            traceparent,
            class: RunClass::Miss,
        }
    }
}

/// Bounds of one run.
#[derive(Debug, Clone, Copy)]
pub struct RunBounds {
    /// Deadline of the run.
    pub timeout_ms: Millis,
    /// Largest number of result bytes that are read.
    pub bytes_max: usize,
}

/// How fresh an answer has to be (RFC 9111, section 5.2.1, as INTERFACE section 1 reads it).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Freshness {
    /// `no-cache`: the origin has to be asked after this request came.
    pub no_cache: bool,
    /// `max-age`: nothing older.
    pub age_max_ms: Option<Millis>,
    /// `max-stale`: accepted beyond the soft TTL, up to so much.
    pub stale_max_ms: Option<Millis>,
    /// `only-if-cached`: nobody asks the origin for this request.
    pub only_if_cached: bool,
}

/// Hints that travel beside the parameters (`Hopcache-Hint`), already within their limits.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Hints {
    /// TTL wanted for the entry.
    pub ttl_ms: Option<Millis>,
    /// Degree of the graph node asked about.
    pub degree: Option<u64>,
    /// How fast the answer changes; 1 is usual.
    pub volatility: Option<f64>,
}

/// One request at its entry node.
#[derive(Debug, Clone)]
pub struct Ask {
    /// What is asked.
    pub query: Arc<Query>,
    /// In which rendering.
    pub rendering: RenderingId,
    /// How fresh.
    pub freshness: Freshness,
    /// Hints.
    pub hints: Hints,
    /// Access mode that the client asked for; a read that is cached always runs in READ.
    pub mode: AccessMode,
    /// `no-store`, bookmarks and the like: why this request is not to touch the cache.
    pub bypass: Option<RequestBypass>,
    /// When the client gives up.
    pub deadline: MonoTime,
    /// W3C trace context.
    pub traceparent: Option<String>,
    /// Whether another node sent it: then it has made its one hop (I8).
    pub is_forwarded: bool,
    /// Which session this request belongs to, for learning: a keyed hash of what the client calls it.
    pub session: Option<SessionTag>,
}

/// Keyed 128-bit digest of a session's name. The name itself is never kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionTag(pub [u8; 16]);

/// What makes a request, whatever its statement, pass the cache by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestBypass {
    /// `Cache-Control: no-store`.
    NoStore,
    /// It waits for bookmarks.
    Bookmarks(Vec<String>),
}
