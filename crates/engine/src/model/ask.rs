//! What a client asks, as far as the engine cares: a query, a rendering, and how fresh the answer has to be.
//!
//! Nothing here knows a protocol: a front reads the request and says it in these words.

use std::sync::Arc;

use bytes::Bytes;
use hopcache_core::bookmark::Bookmark;
use hopcache_core::cypher::normal::NormalForm;
use hopcache_core::cypher::pattern::PatternId;
use hopcache_core::cypher::statement::Statement;
use hopcache_core::cypher::verdict::Lexed;
use hopcache_core::key::{DatabaseTag, KeyHasher, KeyMaterial, PrincipalScope, QueryKey, SaidReading};
use hopcache_core::limits::ANCHOR_TEXT_BYTES_MAX;
use hopcache_core::tags::Tags;
use hopcache_core::time::{Millis, MonoTime};
use hopcache_core::turns::RunClass;

use crate::model::identity::Identity;
use crate::model::origin_run::{AccessMode, OriginRun, RunBookmarks};
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
    /// What the node that it is forwarded to believes this node's reading by; none where it is not forwarded.
    proof: Option<[u8; 32]>,
}

/// Whose runs tell what a run costs: those of one pattern, for one principal, in one database. What one principal makes
/// slow, by its literals or parameters, changes no lease and no deadline of another's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct CostKey {
    pattern: PatternId,
    database: DatabaseTag,
    scope: PrincipalScope,
}

impl CostKey {
    /// The same of another pattern.
    pub(crate) fn of_pattern(self, pattern: PatternId) -> Self {
        Self { pattern, ..self }
    }
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
    /// list that the operator vouches for. It walks over the text once, and takes time linear in its length.
    #[must_use]
    pub fn read(parts: QueryParts, hasher: &KeyHasher, procedures: &[String]) -> Self {
        let Statement { normal, lexed, pattern } = Statement::of(&parts.statement, procedures);
        let key = hasher.query_key(&KeyMaterial {
            database: &parts.database,
            scope: parts.identity.scope,
            normal: &normal,
            params: &parts.params,
        });
        let lexed = lexed.with_params(&parts.params);
        let is_forwarded = lexed == Lexed::PerhapsRead;
        let mut query = Self::of(parts, hasher, (key, Statement { normal, lexed, pattern }));
        query.proof = is_forwarded.then(|| hasher.reading_proof(&query.said_reading()));
        query
    }

    /// A statement that another node has read, if its word can be believed. The text is not walked over.
    pub(crate) fn told(
        parts: QueryParts,
        hasher: &KeyHasher,
        key: QueryKey,
        reading: &ToldReading<'_>,
    ) -> Option<Self> {
        // A long normal form is not sent. Nothing that this node remembers goes by the form of a long text.
        let normal = reading.normal.map_or_else(|| Arc::clone(&parts.statement), Arc::from);
        let normal = NormalForm::as_told(normal);
        let statement = Statement { normal, lexed: Lexed::PerhapsRead, pattern: reading.pattern };
        let query = Self::of(parts, hasher, (key, statement));
        let said = SaidReading { normal: reading.normal, ..query.said_reading() };
        // Nobody learns anything from how long this takes: the proof came sealed with the same secret.
        (hasher.reading_proof(&said) == reading.proof).then_some(query)
    }

    /// Whose runs tell what a run of this query costs.
    pub(crate) fn cost_key(&self) -> CostKey {
        CostKey { pattern: self.pattern, database: self.tags.database(), scope: self.identity.scope }
    }

    /// What is told to the node that this query is forwarded to.
    pub(crate) fn to_tell(&self) -> Option<ToldReading<'_>> {
        let SaidReading { normal, pattern, .. } = self.said_reading();
        self.proof.map(|proof| ToldReading { normal, pattern, proof })
    }

    fn said_reading(&self) -> SaidReading<'_> {
        let normal = self.normal.as_str();
        let is_said = normal.len() <= ANCHOR_TEXT_BYTES_MAX && normal != &*self.statement;
        SaidReading {
            key: &self.key,
            database: &self.database,
            scope: self.identity.scope,
            statement: &self.statement,
            normal: is_said.then_some(normal),
            pattern: self.pattern,
            params: &self.params,
        }
    }

    fn of(parts: QueryParts, hasher: &KeyHasher, (key, read): (QueryKey, Statement)) -> Self {
        Self {
            key,
            tags: Tags::of_database(DatabaseTag::of(hasher, &parts.database)),
            lexed: read.lexed,
            pattern: read.pattern,
            normal: read.normal,
            database: parts.database,
            statement: parts.statement,
            params: parts.params,
            impersonated: parts.impersonated,
            identity: parts.identity,
            proof: None,
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
            bookmarks: RunBookmarks::default(),
            timeout_ms: bounds.timeout_ms,
            bytes_max: bounds.bytes_max,
            traceparent,
            class: RunClass::Miss,
        }
    }
}

/// What a node tells another one of a statement that it has read and takes for a read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ToldReading<'a> {
    /// The normal form; none where it is the statement itself, or too long to be sent beside it.
    pub(crate) normal: Option<&'a str>,
    pub(crate) pattern: PatternId,
    /// [`KeyHasher::reading_proof`] of it.
    pub(crate) proof: [u8; 32],
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
    /// `no-store`, bookmarks that are not understood: why this request is not to touch the cache.
    pub bypass: Option<RequestBypass>,
    /// What the answer has to have seen: nothing that was read before is an answer.
    pub bookmarks: Bookmark,
    /// When the client gives up.
    pub deadline: MonoTime,
    /// How long a run may take at the most, by the client's word; always less than the operator's.
    pub run_ms_max: Option<Millis>,
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
    /// It waits for bookmarks that this node does not understand.
    Bookmarks(Vec<String>),
}
