//! A client's request, as the engine sees it: a query, a rendering, and how fresh the answer has to be.
//!
//! Nothing here knows a protocol: a front reads the request and translates it to these types.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use hopcache_core::bookmark::Bookmark;
use hopcache_core::key::{DatabaseTag, KeyHasher, KeyMaterial, KeyedReading, PrincipalScope, QueryKey};
use hopcache_core::pattern::PatternId;
use hopcache_core::tags::{Tags, Viewer};
use hopcache_core::time::{Millis, MonoTime};
use hopcache_core::turns::RunClass;
use hopcache_core::write_position::WritePosition;
use hopcache_cypher::forms::normal::NormalForm;
use hopcache_cypher::forms::shared::{Columns, columns_bytes};
use hopcache_cypher::limits::ANCHOR_TEXT_BYTES_MAX;
use hopcache_cypher::statement::Statement;
use hopcache_cypher::verdict::{Allowed, TextVerdict};
use tokio_util::sync::CancellationToken;

use crate::model::fetch_times::FetchTimes;
use crate::model::identity::Identity;
use crate::model::live::LiveRun;
use crate::model::origin_run::{AccessMode, OriginRun, RunBookmarks, TransactionMetadata};
use crate::model::rendering::RenderingId;
use crate::model::text_facts::{AnswerReads, TextFacts};

/// A statement with everything that decides its answer.
#[derive(Debug, Clone)]
pub struct Query {
    /// Requests with the same key may share the answer.
    pub key: QueryKey,
    /// The tags of its answer: an invalidation names them.
    pub tags: Tags,
    /// Database name as the client gave it.
    pub database: Arc<str>,
    /// Statement as the client gave it: error positions refer to it.
    pub statement: Arc<str>,
    /// Its normal form. The server's answer about the statement is remembered by it.
    pub normal: NormalForm,
    /// Literal- and parameter-free form, for the cost of such runs.
    pub pattern: PatternId,
    /// The lexer's verdict.
    pub lexed: TextVerdict,
    /// Parameters: one canonical PackStream map.
    pub params: Bytes,
    /// User to act as, if it is another one.
    pub impersonated: Option<String>,
    /// The asking identity.
    pub identity: Arc<Identity>,
    /// What the text alone decides.
    facts: Arc<TextFacts>,
    /// What the answer depends on, when somebody has asked.
    reads: OnceLock<AnswerReads>,
    /// The mark that its answer has to have seen, by the version of the marks at which somebody asked first.
    needed: OnceLock<(u64, Option<WritePosition>)>,
    /// The names of its columns, if its answer may come from another spelling. `None` for a told reading: the node that
    /// has told it names the columns for its client.
    columns: Option<Columns>,
    /// Whether this node has read it itself. Only then it tells its reading to the node that the query is forwarded to.
    is_read_here: bool,
}

/// The runs that estimate the cost of a run: those of one pattern, for one principal, in one database. A principal that
/// makes runs slow, by its literals or parameters, changes no lease and no deadline of another principal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct CostKey {
    pattern: PatternId,
    database: DatabaseTag,
    scope: PrincipalScope,
}

impl CostKey {
    /// The same, for another pattern.
    pub(crate) fn of_pattern(self, pattern: PatternId) -> Self {
        Self { pattern, ..self }
    }
}

/// The parts of a [`Query`].
#[derive(Debug, Clone)]
pub struct QueryParts {
    /// Database name as the client gave it.
    pub database: Arc<str>,
    /// Statement as the client gave it.
    pub statement: Arc<str>,
    /// One canonical PackStream map.
    pub params: Bytes,
    /// User to act as, if it is another one.
    pub impersonated: Option<String>,
    /// The asking identity.
    pub identity: Arc<Identity>,
}

#[cfg(test)]
impl Query {
    /// A query without parameters, of somebody without a password: for tests that ask for nothing but its text.
    pub(crate) fn of_text(statement: &str) -> Self {
        let hasher = KeyHasher::new(b"");
        let scope = PrincipalScope::of(&hasher, "basic", "ann", None);
        let credentials = crate::model::identity::Credentials::None;
        let identity = Identity { scope, fingerprint: [0; 32], credentials };
        let parts = QueryParts {
            database: "neo4j".into(),
            statement: statement.into(),
            params: Bytes::from_static(&[0xA0]),
            impersonated: None,
            identity: Arc::new(identity),
        };
        Self::read(parts, &hasher, &Allowed::default())
    }
}

impl Query {
    /// Reads a statement: normal form, lexer's verdict, key. `allowed` is what the operator vouches for
    /// beyond the built-in list. It lexes the text once, in time linear in its length.
    #[must_use]
    pub fn read(parts: QueryParts, hasher: &KeyHasher, allowed: &Allowed) -> Self {
        Self::read_sharing(parts, hasher, allowed, hasher.shares_spellings())
    }

    /// As [`Query::read`], if the query has this key. A node that shares spellings and one that does not compute different
    /// keys for some statements. Either is right for a query that the other node sent.
    pub(crate) fn read_as(
        parts: QueryParts,
        hasher: &KeyHasher,
        allowed: &Allowed,
        key: &QueryKey,
    ) -> Option<Self> {
        let own = hasher.shares_spellings();
        let read = |shares| Self::read_sharing(parts.clone(), hasher, allowed, shares);
        [own, !own].into_iter().map(read).find(|query| query.key == *key)
    }

    fn read_sharing(parts: QueryParts, hasher: &KeyHasher, allowed: &Allowed, shares: bool) -> Self {
        let statement = Statement::of(&parts.statement, allowed, shares);
        let facts = Arc::new(TextFacts::of(Arc::clone(&parts.statement)));
        Self::of_statement(parts, hasher, (statement, facts))
    }

    /// As [`Query::read`], of a statement that is read. `facts` are those of its text in its database.
    pub(crate) fn of_statement(
        parts: QueryParts,
        hasher: &KeyHasher,
        (read, facts): (Statement, Arc<TextFacts>),
    ) -> Self {
        let key = hasher.query_key(&KeyMaterial {
            database: &parts.database,
            scope: parts.identity.scope,
            form: read.key_form(),
            params: &parts.params,
        });
        let lexed = read.lexed.with_params(&parts.params);
        let columns = read.shared.as_ref().map(|shared| Arc::clone(shared.columns()));
        let read = Statement { lexed, ..read };
        Self { columns, is_read_here: true, ..Self::of(parts, hasher, (key, read), facts) }
    }

    /// A statement that another node has read, if its proof holds. This node does not lex the text.
    pub(crate) fn told(
        parts: QueryParts,
        hasher: &KeyHasher,
        (key, reading): (QueryKey, &PeerReading<'_>),
        facts: Arc<TextFacts>,
    ) -> Option<Self> {
        // A long normal form is not sent. This node remembers nothing by the form of a long text.
        let normal = reading.normal.map_or_else(|| Arc::clone(&parts.statement), Arc::from);
        let normal = NormalForm::as_told(normal);
        let (lexed, pattern) = (TextVerdict::PerhapsRead, reading.pattern);
        let statement = Statement { normal, lexed, pattern, shared: None };
        let query = Self::of(parts, hasher, (key, statement), facts);
        let said = KeyedReading { normal: reading.normal, ..query.said_reading() };
        // The timing of this comparison reveals nothing: the proof came sealed with the same secret.
        (hasher.reading_proof(&said) == reading.proof).then_some(query)
    }

    /// The group of runs that estimates this query's cost.
    pub(crate) fn cost_key(&self) -> CostKey {
        CostKey { pattern: self.pattern, database: self.tags.database(), scope: self.identity.scope }
    }

    /// The reading for the node that this query is forwarded to.
    pub(crate) fn to_tell(&self, hasher: &KeyHasher) -> Option<PeerReading<'_>> {
        if !self.is_read_here || self.lexed != TextVerdict::PerhapsRead {
            return None;
        }
        let said = self.said_reading();
        let proof = hasher.reading_proof(&said);
        Some(PeerReading { normal: said.normal, pattern: said.pattern, proof })
    }

    /// Bytes that it keeps alive, the texts that it shares with other queries among them.
    #[must_use]
    pub fn weight_bytes(&self) -> usize {
        let normal = self.normal.as_str();
        let is_apart = normal.as_ptr() != self.statement.as_ptr();
        let texts = self.database.len() + self.statement.len() + if is_apart { normal.len() } else { 0 };
        let tags = self.reads.get().map_or(0, |reads| size_of_val(&*reads.of_text.tags));
        size_of::<Self>()
            + texts
            + self.params.len()
            + self.impersonated.as_ref().map_or(0, String::len)
            + self.columns.as_ref().map_or(0, columns_bytes)
            + tags
    }

    fn said_reading(&self) -> KeyedReading<'_> {
        let normal = self.normal.as_str();
        let is_said = normal.len() <= ANCHOR_TEXT_BYTES_MAX && normal != &*self.statement;
        KeyedReading {
            key: &self.key,
            database: &self.database,
            scope: self.identity.scope,
            statement: &self.statement,
            normal: is_said.then_some(normal),
            pattern: self.pattern,
            params: &self.params,
        }
    }

    fn of(
        parts: QueryParts,
        hasher: &KeyHasher,
        (key, read): (QueryKey, Statement),
        facts: Arc<TextFacts>,
    ) -> Self {
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
            facts,
            reads: OnceLock::new(),
            needed: OnceLock::new(),
            columns: None,
            is_read_here: false,
        }
    }

    /// The names of the columns, if the answer may come from another spelling of the query: then it may have other names.
    #[must_use]
    pub fn columns(&self) -> Option<&Columns> {
        self.columns.as_ref()
    }

    /// Gives an answer the names that this spelling has for its columns. An answer with another number of columns is of a
    /// server that names them in its own way, and keeps its names.
    pub fn name_columns(&self, fields: &mut Vec<String>) {
        let Some(columns) = self.columns().filter(|columns| columns.len() == fields.len()) else { return };
        if !fields.iter().map(String::as_str).eq(columns.iter().map(|name| &**name)) {
            *fields = columns.iter().map(ToString::to_string).collect();
        }
    }

    /// What the answer depends on: a write that touches none of these cannot change it. The first question of a text parses it.
    pub(crate) fn reads(&self) -> &AnswerReads {
        self.reads.get_or_init(|| self.facts.reads(&self.params, self.viewer()))
    }

    /// The mark that its answer has to have seen, if somebody has asked at this version of the marks.
    #[allow(clippy::option_option, reason = "no mark is known too")]
    pub(crate) fn needed_at(&self, version: u64) -> Option<Option<WritePosition>> {
        self.needed.get().filter(|(at, _)| *at == version).map(|(_, needed)| *needed)
    }

    /// Notes that mark, which was found at this version or a later one.
    pub(crate) fn note_needed(&self, version: u64, needed: Option<WritePosition>) -> Option<WritePosition> {
        let _ = self.needed.set((version, needed));
        needed
    }

    /// What an answer with a warning of an unknown label, type or key depends on: on each that may be new as well.
    pub(crate) fn reads_with_tokens(&self) -> AnswerReads {
        self.facts.reads_with_tokens(&self.params, self.viewer())
    }

    /// Who asks, as far as it decides what can be seen.
    pub(crate) fn viewer(&self) -> Viewer {
        Viewer::of(&self.identity.scope)
    }

    /// What the text alone decides.
    pub(crate) fn facts(&self) -> &Arc<TextFacts> {
        &self.facts
    }

    /// The run of this query at the origin, reading only.
    #[must_use]
    pub(crate) fn reading(&self, bounds: RunBounds, traceparent: Option<String>) -> OriginRun {
        OriginRun {
            identity: Arc::clone(&self.identity),
            impersonated: self.impersonated.clone(),
            database: Arc::clone(&self.database),
            statement: Arc::clone(&self.statement),
            pattern: Some(self.pattern),
            params: self.params.clone(),
            mode: AccessMode::Read,
            may_be_repeated: true,
            bookmarks: RunBookmarks::default(),
            timeout_ms: bounds.timeout_ms,
            bytes_max: bounds.bytes_max,
            traceparent,
            class: RunClass::Miss,
            metadata: None,
            live: None,
            times: FetchTimes::default(),
        }
    }
}

/// A node's reading of a statement that it takes for a read, for another node.
#[derive(Debug, Clone, Copy, serde::Serialize, serde::Deserialize)]
pub(crate) struct PeerReading<'a> {
    /// The normal form; `None` if it is the statement itself, or too long to be sent beside it.
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
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Freshness {
    /// `no-cache`: the origin has to be asked after this request came.
    pub no_cache: bool,
    /// `max-age`: the greatest age accepted.
    pub age_max_ms: Option<Millis>,
    /// `max-stale`: the greatest time past the soft TTL accepted.
    pub stale_max_ms: Option<Millis>,
    /// `Hopcache-Freshness: proved`: of stored entries only proved ones are accepted.
    pub proved_only: bool,
    /// Its transaction may write (I14): of entries only proved ones are accepted, unless Neo4j cannot be reached.
    /// [`TransactionReads`](crate::TransactionReads) sets it, and follows what was answered.
    pub may_write: bool,
    /// `only-if-cached`: this request must not cause a run at the origin.
    pub only_if_cached: bool,
}

impl Freshness {
    /// Whether nothing but `may_write` differs from the plain rules.
    #[must_use]
    pub(crate) fn is_plain(self) -> bool {
        Self { may_write: false, ..self } == Self::default()
    }
}

/// Hints that travel beside the parameters (`Hopcache-Hint`), already within their limits.
#[derive(Debug, Clone, Copy, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Hints {
    /// TTL wanted for the entry.
    pub ttl_ms: Option<Millis>,
    /// Degree of the queried graph node.
    pub degree: Option<u64>,
    /// How fast the answer changes; 1 is usual.
    pub volatility: Option<f64>,
}

/// One request at its entry node.
#[derive(Debug, Clone)]
pub struct Ask {
    /// The query.
    pub query: Arc<Query>,
    /// The rendering of the answer.
    pub rendering: RenderingId,
    /// The freshness that the answer needs.
    pub freshness: Freshness,
    /// Hints.
    pub hints: Hints,
    /// Access mode that the client asked for; a read that is cached always runs in READ.
    pub mode: AccessMode,
    /// The reason why this request must not touch the cache: `no-store`, or bookmarks that this node cannot parse.
    pub bypass: Option<RequestBypass>,
    /// What the answer has to have seen: nothing that was read before is an answer.
    pub bookmarks: Bookmark,
    /// How far its database had been written when it came. The request path notes it; fronts leave it empty.
    pub written: Option<WritePosition>,
    /// When the client gives up.
    pub deadline: MonoTime,
    /// The longest run that the client allows; always less than the operator's limit.
    pub run_ms_max: Option<Millis>,
    /// W3C trace context.
    pub traceparent: Option<String>,
    /// Whether another node sent it. Then it has made its one hop (I8).
    pub is_forwarded: bool,
    /// The transaction's metadata of a request that does not go through the cache: the client's, and who the client is. A run for the
    /// cache is nobody's, and has none.
    pub metadata: Option<TransactionMetadata>,
    /// Takes the records of a run that this request leads, while it goes on.
    pub live: Option<Arc<LiveRun>>,
    /// Cancelled when the client has gone, of a front whose clients end what they leave. A run that only such clients want
    /// ends with them; any other run goes on (F3).
    pub client: Option<CancellationToken>,
    /// The session of this request, for learning: a keyed hash of the client's name for it.
    pub session: Option<SessionTag>,
}

/// Keyed 128-bit digest of a session's name. The name itself is never kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct SessionTag(pub [u8; 16]);

/// The reason why a request bypasses the cache, whatever its statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestBypass {
    /// `Cache-Control: no-store`.
    NoStore,
    /// The request has bookmarks that this node cannot parse.
    Bookmarks(Vec<String>),
    /// Its parameters are too large for a key, a hop and a copy.
    Large,
}
