//! Statements that clients have sent lately, as they were read. Most requests differ from an earlier one in their parameters only:
//! their text is then lexed once, and the queries of all of them share its allocations.
//!
//! It only remembers. Each text has one place, by its hash, and a new text replaces the old one there.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use hopcache_core::limits::{KNOWN_TEXT_BYTES_MAX, KNOWN_TEXTS_MAX};
use hopcache_cypher::forms::normal::NormalForm;
use hopcache_cypher::forms::shared::SharedForm;
use hopcache_cypher::statement::Statement;

use crate::model::outcome::Reason;
use crate::model::text_facts::TextFacts;

/// A client's statement as it was read, before its parameters are.
#[derive(Clone)]
pub struct ParsedStatement {
    pub(super) database: Arc<str>,
    pub(super) text: Arc<str>,
    pub(super) statement: Statement,
    pub(super) facts: Arc<TextFacts>,
}

impl ParsedStatement {
    /// Why the text goes past the cache, whatever its parameters are: it writes, or it is no read that can be cached.
    #[must_use]
    pub const fn passes(&self) -> Option<Reason> {
        Reason::of_text(self.statement.lexed)
    }

    /// What else the text decides.
    #[must_use]
    pub fn facts(&self) -> &Arc<TextFacts> {
        &self.facts
    }
}

/// Statements, each with the database that it was sent to.
pub(super) struct ParsedStatements {
    read: Places<ParsedStatement>,
    /// Of texts that another node has read, and of those that go to Neo4j without a query, this node knows the facts alone.
    told: Places<ToldText>,
}

struct ToldText {
    database: Arc<str>,
    text: Arc<str>,
    facts: Arc<TextFacts>,
}

/// One place for each text, by its hash.
struct Places<T> {
    places: Box<[ArcSwapOption<T>]>,
    // The same in every process, so that a simulated run can be repeated. Texts that are chosen to share a place are lexed again.
    hasher: BuildHasherDefault<DefaultHasher>,
}

impl<T> Places<T> {
    fn new() -> Self {
        let places = (0..KNOWN_TEXTS_MAX).map(|_| ArcSwapOption::empty()).collect();
        Self { places, hasher: BuildHasherDefault::new() }
    }

    /// `None` for a text that is too long to be remembered.
    fn place(&self, database: &str, text: &str) -> Option<&ArcSwapOption<T>> {
        if text.len() > KNOWN_TEXT_BYTES_MAX {
            return None;
        }
        #[expect(clippy::cast_possible_truncation, reason = "any bits will do")]
        let at = self.hasher.hash_one((text, database)) as usize % KNOWN_TEXTS_MAX;
        self.places.get(at)
    }
}

impl ParsedStatements {
    pub(super) fn new() -> Self {
        Self { read: Places::new(), told: Places::new() }
    }

    /// Forgets how every text was read. Facts do not depend on what the operator allows.
    pub(super) fn forget(&self) {
        self.read.places.iter().for_each(|place| place.store(None));
    }

    /// Reads the text of a query, which then shares its allocations. `lex` reads one that is not known.
    pub(super) fn read(
        &self,
        database: Arc<str>,
        text: Arc<str>,
        lex: impl FnOnce(&str) -> Statement,
    ) -> ParsedStatement {
        let place = self.read.place(&database, &text);
        if let Some(place) = place
            && let Some(known) = &*place.load()
            && known.text == text
            && known.database == database
        {
            return ParsedStatement::clone(known);
        }
        let mut statement = lex(&text);
        let facts = Arc::new(TextFacts::of(Arc::clone(&text)));
        let is_long = |shared: &SharedForm| shared.weight_bytes() > KNOWN_TEXT_BYTES_MAX;
        let kept = place.filter(|_| !statement.shared.as_ref().is_some_and(is_long));
        if kept.is_some() && statement.normal.as_str() == &*text {
            statement.normal = NormalForm::as_told(Arc::clone(&text));
        }
        let read = ParsedStatement { database, text, statement, facts };
        if let Some(place) = kept {
            place.store(Some(Arc::new(read.clone())));
        }
        read
    }

    /// The facts of a text that this node has not read for a query of its own.
    pub(super) fn facts(&self, database: &str, text: &str) -> Arc<TextFacts> {
        if let Some(place) = self.read.place(database, text)
            && let Some(known) = &*place.load()
            && *known.text == *text
            && *known.database == *database
        {
            return Arc::clone(&known.facts);
        }
        let place = self.told.place(database, text);
        if let Some(place) = place
            && let Some(known) = &*place.load()
            && *known.text == *text
            && *known.database == *database
        {
            return Arc::clone(&known.facts);
        }
        let (database, text) = (Arc::from(database), Arc::from(text));
        let facts = Arc::new(TextFacts::of(Arc::clone(&text)));
        if let Some(place) = place {
            place.store(Some(Arc::new(ToldText { database, text, facts: Arc::clone(&facts) })));
        }
        facts
    }
}
