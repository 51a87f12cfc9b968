//! Statements that clients have sent lately, as they were read. Most requests differ from an earlier one in their parameters only:
//! their text is then lexed once, and the queries of all of them share its allocations.
//!
//! It only remembers. Each text has one place, by its hash, and a new text replaces the old one there.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use hopcache_core::limits::{KNOWN_TEXT_BYTES_MAX, KNOWN_TEXTS_MAX};
use hopcache_cypher::forms::normal::NormalForm;
use hopcache_cypher::statement::Statement;

use crate::model::ask::QueryParts;

/// Statements, each with the database that it was sent to.
pub(super) struct Texts {
    places: Box<[ArcSwapOption<KnownText>]>,
    // The same in every process, so that a simulated run can be repeated. Texts that are chosen to share a place are lexed again.
    hasher: BuildHasherDefault<DefaultHasher>,
}

struct KnownText {
    database: Arc<str>,
    text: Arc<str>,
    statement: Statement,
}

impl Texts {
    pub(super) fn new() -> Self {
        let places = (0..KNOWN_TEXTS_MAX).map(|_| ArcSwapOption::empty()).collect();
        Self { places, hasher: BuildHasherDefault::new() }
    }

    /// The statement of a query, which then shares its texts. `lex` reads one that is not known.
    pub(super) fn read(&self, parts: &mut QueryParts, lex: impl FnOnce(&str) -> Statement) -> Statement {
        if parts.statement.len() > KNOWN_TEXT_BYTES_MAX {
            return lex(&parts.statement);
        }
        #[expect(clippy::cast_possible_truncation, reason = "any bits will do")]
        let at = self.hasher.hash_one((&parts.statement, &parts.database)) as usize % KNOWN_TEXTS_MAX;
        let place = &self.places[at];
        if let Some(known) = &*place.load()
            && known.text == parts.statement
            && known.database == parts.database
        {
            (parts.statement, parts.database) = (Arc::clone(&known.text), Arc::clone(&known.database));
            return known.statement.clone();
        }
        let mut statement = lex(&parts.statement);
        if statement.shared.as_ref().is_some_and(|shared| shared.weight_bytes() > KNOWN_TEXT_BYTES_MAX) {
            return statement;
        }
        if statement.normal.as_str() == &*parts.statement {
            statement.normal = NormalForm::as_told(Arc::clone(&parts.statement));
        }
        let (database, text) = (Arc::clone(&parts.database), Arc::clone(&parts.statement));
        place.store(Some(Arc::new(KnownText { database, text, statement: statement.clone() })));
        statement
    }
}
