//! Decides whether a statement reads: the lexer rejects fast, then the server decides, and its answer is remembered.
//!
//! The authority is the server. A client's first run of a text asks it: it runs reading only, so that the server plans no write
//! (it refuses one before it runs), and the summary says what the statement is. Planning a text twice, for `EXPLAIN` and for its run,
//! took its first reader on each node twice as long. `EXPLAIN` asks about a node's first text in each database, where the server refused such a run, about
//! what READ mode may not refuse (procedures that only the operator vouches for), about `SHOW`, and for a prefetch, which no client has
//! asked for. A statement that the server has not confirmed as a read is never cached (I6).
//!
//! A server that is not Neo4j cannot be asked: where the operator says so (`origin.classify = "words"`), the statement's words decide.

use std::collections::BTreeSet;
use std::hash::RandomState;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use hopcache_core::key::DatabaseTag;
use hopcache_core::limits::{
    COMPETE_ROUNDS_MAX, VERDICT_TEXT_BYTES_MAX, VERDICTS_MAX, WRITTEN_DATABASES_MAX,
};
use hopcache_core::result::{ResultSet, StatementKind};
use hopcache_core::time::{Millis, MonoTime};
use hopcache_core::turns::RunClass;
use hopcache_cypher::checks::schema::shows_schema;
use hopcache_cypher::verdict::begins_with_match;
use lru::LruCache;
use parking_lot::Mutex;

use crate::cache::FLIGHT_BOUNDS;
use crate::cache::flight::{FlightTable, Seat, Wait};
use crate::fetch::run::is_left_to_clients;
use crate::model::ask::{Query, RunBounds};
use crate::model::context::Context;
use crate::model::event::Cause;
use crate::model::outcome::Reason;
use crate::model::policy::{ClassifiesBy, Policy};
use crate::model::ports::{Origin, OriginError, OriginFault, OriginRun};

/// The way of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The server says that it reads.
    Read,
    /// The server has not been asked; the leader of its flight asks.
    Unasked,
    /// Past the cache.
    Bypass(Reason),
}

type WordKey = (Arc<str>, Arc<str>);

/// The server's answers by database and normal form. The least recently used is forgotten first.
struct ServerWords {
    words: Mutex<LruCache<WordKey, StatementKind, RandomState>>,
    /// How often a remembered "read" was found to be wrong. Copies of words at their texts are of one such number.
    distrusts: AtomicU32,
    /// Databases of which the server has been asked about a text.
    asked: Mutex<BTreeSet<DatabaseTag>>,
}

impl ServerWords {
    fn new() -> Self {
        let capacity = NonZeroUsize::new(VERDICTS_MAX).unwrap_or(NonZeroUsize::MIN);
        // Clients choose the keys, so this uses std's keyed hash: lru's default hash does not resist chosen collisions
        // (F35).
        let words = Mutex::new(LruCache::with_hasher(capacity, RandomState::new()));
        Self { words, distrusts: AtomicU32::new(0), asked: Mutex::default() }
    }

    fn has_asked_in(&self, database: DatabaseTag) -> bool {
        self.asked.lock().contains(&database)
    }

    /// Beyond the bound one is forgotten: its next new text is asked about once more.
    fn note_asked_in(&self, database: DatabaseTag) {
        let mut asked = self.asked.lock();
        if asked.len() >= WRITTEN_DATABASES_MAX && !asked.contains(&database) {
            asked.pop_first();
        }
        asked.insert(database);
    }

    fn len(&self) -> usize {
        self.words.lock().len()
    }

    fn get(&self, query: &Query) -> Option<StatementKind> {
        // Before the word: see `KnownWord`.
        let distrusts = self.distrusts.load(Ordering::Acquire);
        let known = query.facts().word().get(distrusts);
        if known.is_some() {
            return known;
        }
        let word = self.words.lock().get(&word_key(query)).copied()?;
        query.facts().word().note(distrusts, word);
        Some(word)
    }

    /// Returns what is remembered from now on. A statement that was no read stays none:
    ///   a node asks the server · a run past the cache reports a change · the server's word "read" arrives.
    ///
    /// A long text is asked about each time: twenty thousand remembered texts of a megabyte would take 20 GB.
    fn set(&self, query: &Query, kind: StatementKind) -> StatementKind {
        if query.normal.as_str().len() > VERDICT_TEXT_BYTES_MAX {
            return kind;
        }
        let mut words = self.words.lock();
        let known = words.get_or_insert_mut(word_key(query), || kind);
        if *known == StatementKind::Read && kind != StatementKind::Read {
            *known = kind;
            self.distrusts.fetch_add(1, Ordering::Release);
        }
        *known
    }
}

fn word_key(query: &Query) -> WordKey {
    (Arc::clone(&query.database), query.normal.shared())
}

/// Whether a statement reads, by the server's word for it: to the server, what shows the schema is of the schema's kind.
pub(super) fn is_read(kind: StatementKind, statement: &str) -> bool {
    kind == StatementKind::Read || (kind == StatementKind::Schema && shows_schema(statement))
}

/// Decides of statements whether they read.
pub(crate) struct Classifier {
    context: Context,
    origin: Arc<dyn Origin>,
    run_timeout_ms: Millis,
    by: ClassifiesBy,
    words: ServerWords,
    /// Questions to the server under way.
    questions: Arc<FlightTable<WordKey, Result<StatementKind, OriginError>>>,
}

impl Classifier {
    pub(super) fn new(context: &Context, origin: &Arc<dyn Origin>, policy: &Policy) -> Self {
        let Policy { run_timeout_ms, classifies_by: by, .. } = *policy;
        Self {
            context: context.clone(),
            origin: Arc::clone(origin),
            run_timeout_ms,
            by,
            words: ServerWords::new(),
            questions: FlightTable::new(FLIGHT_BOUNDS),
        }
    }

    /// Statements with a remembered answer.
    pub(crate) fn words_len(&self) -> usize {
        self.words.len()
    }

    /// Questions under way.
    pub(crate) fn questions_len(&self) -> usize {
        self.questions.len()
    }

    /// A run of the statement has reported a change, although it looked like a read: on this node it counts as a write for
    /// as long as the word is remembered, whatever the server says.
    pub(crate) fn distrust(&self, query: &Query) {
        if !matches!(self.verdict(query), Verdict::Bypass(_)) {
            self.words.set(query, StatementKind::ReadWrite);
            // Also if the word had been forgotten here: a text may still have its copy.
            self.words.distrusts.fetch_add(1, Ordering::Release);
        }
    }

    /// The verdict as far as it is known without asking the server.
    #[must_use]
    pub(crate) fn verdict(&self, query: &Query) -> Verdict {
        if let Some(reason) = Reason::of_text(query.lexed) {
            return Verdict::Bypass(reason);
        }
        match self.words.get(query) {
            None => match self.by_words(query) {
                None => Verdict::Unasked,
                Some(StatementKind::Read) => Verdict::Read,
                Some(_) => Verdict::Bypass(Reason::Unknown),
            },
            Some(StatementKind::Read) => Verdict::Read,
            Some(_) => Verdict::Bypass(Reason::Write),
        }
    }

    /// What the words of a statement say of it, where they decide. What a run has reported is believed more
    /// ([`Self::distrust`]).
    fn by_words(&self, query: &Query) -> Option<StatementKind> {
        match self.by {
            ClassifiesBy::Server => None,
            ClassifiesBy::Words if query.lexed.may_read() && begins_with_match(query.normal.as_str()) => {
                Some(StatementKind::Read)
            }
            ClassifiesBy::Words => Some(StatementKind::ReadWrite),
        }
    }

    /// Whether the statement's own run, reading only, is the question to the server.
    ///
    /// The lexer has found no word that writes, no function that it does not know, and no procedure that may do more than read. A
    /// procedure that only the operator vouches for may be of a kind that READ mode does not refuse, so it is asked about first. A
    /// statement that shows the schema is of another kind, and a prefetch has no client that would be told a failure.
    ///
    /// A node's first text in a database is asked about: the answer's bookmark tells the node how far that database is, and each run
    /// carries that (EXACT section 1).
    pub(super) fn is_told_by_its_run(&self, query: &Query, cause: Cause) -> bool {
        cause != Cause::Prefetch
            && self.verdict(query) == Verdict::Unasked
            && self.words.has_asked_in(query.tags.database())
            && !shows_schema(&query.statement)
            && !query.facts().may_call_procedure()
    }

    /// Hears what a text's first run says of it, which READ mode has not refused. Returns why each client has to run it for itself, if so.
    ///
    /// A result that is too large has no summary. The server has planned it in READ mode all the same, so it is a read. What has
    /// changed something, although it looked like a read, never runs a second time: it is distrusted where its result is settled.
    pub(super) fn hear(&self, query: &Query, ended: &Result<ResultSet, OriginError>) -> Option<Reason> {
        let kind = match ended {
            Ok(result) if result.has_updates() => return None,
            Ok(result) => result.kind,
            Err(error) if is_left_to_clients(&error.kind) => Some(StatementKind::Read),
            Err(_) => return None,
        };
        match kind {
            Some(StatementKind::Read) => {
                self.words.set(query, StatementKind::Read);
                None
            }
            Some(_) => {
                self.distrust(query);
                Some(Reason::Write)
            }
            None => {
                self.distrust(query);
                Some(Reason::Unknown)
            }
        }
    }

    /// The server's answer, asked once for each statement text even if many of its keys are cold, then remembered.
    pub(crate) async fn server_word_for(
        &self,
        query: &Query,
        class: RunClass,
    ) -> Result<StatementKind, OriginError> {
        for _ in 0..COMPETE_ROUNDS_MAX {
            // In each round: after a lost leader another request may have asked already.
            if let Some(kind) = self.words.get(query).or_else(|| self.by_words(query)) {
                return Ok(kind);
            }
            match self.questions.join(&word_key(query)) {
                Seat::Full => break,
                Seat::Lead(leader) => {
                    let word = self.ask_server(query, class).await;
                    match &word {
                        // A prefetch keeps its own trouble from requests: dropping the leader loses it for the
                        // followers, and one of them asks.
                        Err(error) if class == RunClass::Prefetch && !error.kind.refuses_statement() => {
                            drop(leader);
                        }
                        _ => {
                            leader.land(word.clone());
                        }
                    }
                    return word;
                }
                Seat::Follow(follower) => match follower.wait().await {
                    Wait::Landed(Ok(kind)) => return Ok(kind),
                    // A server that is away, or that used up a run's time, fails for every request.
                    Wait::Landed(Err(error))
                        if matches!(error.kind, OriginFault::Unreachable(_) | OriginFault::TimedOut) =>
                    {
                        return Err(error);
                    }
                    // Another error may be about the asking principal (I5), so each request asks for itself.
                    Wait::Landed(Err(_)) => break,
                    Wait::Lost => {}
                },
            }
        }
        self.ask_server(query, class).await
    }

    /// As [`Self::server_word_for`], for a prefetch: it gives up at `until`, whether it asks or waits for another
    /// question. Requests wait for the prefetch on its key's flight and for its question; a question given up is a lost
    /// leader to them.
    pub(crate) async fn server_word_ahead(
        &self,
        query: &Query,
        until: MonoTime,
    ) -> Result<StatementKind, OriginError> {
        tokio::select! {
            biased;
            word = self.server_word_for(query, RunClass::Prefetch) => word,
            () = self.context.sleep(until.since(self.context.now())) => Err(OriginFault::TimedOut.into()),
        }
    }

    async fn ask_server(&self, query: &Query, class: RunClass) -> Result<StatementKind, OriginError> {
        let bounds = RunBounds { timeout_ms: self.run_timeout_ms, bytes_max: 0 };
        let run = OriginRun { class, ..query.reading(bounds, None) };
        let kind = self.origin.kind(&run).await?;
        self.words.note_asked_in(query.tags.database());
        let kind = if is_read(kind, &query.statement) { StatementKind::Read } else { kind };
        Ok(self.words.set(query, kind))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// B3 in shared/CASES.md. What changes the schema is a write.
    #[test]
    fn what_shows_the_schema_is_a_read() {
        for (kind, text, expected) in [
            (StatementKind::Schema, "SHOW CONSTRAINTS", true),
            (StatementKind::Read, "SHOW CONSTRAINTS", true),
            (StatementKind::Schema, "CREATE CONSTRAINT c FOR (n:A) REQUIRE n.x IS UNIQUE", false),
            (StatementKind::Schema, "SHOW INDEXES", false),
            (StatementKind::Write, "SHOW CONSTRAINTS", false),
        ] {
            assert_eq!(is_read(kind, text), expected, "{kind:?} {text}");
        }
    }

    /// I9, F36: remembered statements are bounded in bytes as well.
    #[test]
    fn a_long_statement_is_not_remembered() {
        let words = ServerWords::new();
        let (short, long) = (
            Query::of_text("RETURN 1"),
            Query::of_text(&format!("RETURN '{}'", "x".repeat(VERDICT_TEXT_BYTES_MAX))),
        );
        for each in [&short, &long] {
            words.set(each, StatementKind::Read);
        }
        assert_eq!((words.get(&short), words.get(&long)), (Some(StatementKind::Read), None));
    }

    /// I6, the schedule at [`ServerWords::set`].
    #[test]
    fn a_late_word_makes_no_read_of_a_statement_that_changed_data() {
        let (words, query) = (ServerWords::new(), Query::of_text("RETURN 1"));
        assert_eq!(words.set(&query, StatementKind::ReadWrite), StatementKind::ReadWrite);
        assert_eq!(words.set(&query, StatementKind::Read), StatementKind::ReadWrite);
        assert_eq!(words.get(&query), Some(StatementKind::ReadWrite));
        let other = Query::of_text("RETURN 2");
        assert_eq!(words.set(&other, StatementKind::Read), StatementKind::Read);
        assert_eq!(words.set(&other, StatementKind::ReadWrite), StatementKind::ReadWrite);
    }
}
