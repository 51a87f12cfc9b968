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

/// A client's statement as it was read, before its parameters are.
#[derive(Clone)]
pub struct ReadText {
    pub(super) database: Arc<str>,
    pub(super) text: Arc<str>,
    pub(super) statement: Statement,
}

impl ReadText {
    /// Why the text goes past the cache, whatever its parameters are: it writes, or it is no read that can be cached.
    #[must_use]
    pub const fn passes(&self) -> Option<Reason> {
        Reason::of_text(self.statement.lexed)
    }
}

/// Statements, each with the database that it was sent to.
pub(super) struct Texts {
    places: Box<[ArcSwapOption<ReadText>]>,
    // The same in every process, so that a simulated run can be repeated. Texts that are chosen to share a place are lexed again.
    hasher: BuildHasherDefault<DefaultHasher>,
}

impl Texts {
    pub(super) fn new() -> Self {
        let places = (0..KNOWN_TEXTS_MAX).map(|_| ArcSwapOption::empty()).collect();
        Self { places, hasher: BuildHasherDefault::new() }
    }

    /// Forgets every text.
    pub(super) fn forget(&self) {
        self.places.iter().for_each(|place| place.store(None));
    }

    /// Reads the text of a query, which then shares its allocations. `lex` reads one that is not known.
    pub(super) fn read(
        &self,
        database: Arc<str>,
        text: Arc<str>,
        lex: impl FnOnce(&str) -> Statement,
    ) -> ReadText {
        if text.len() > KNOWN_TEXT_BYTES_MAX {
            let statement = lex(&text);
            return ReadText { database, text, statement };
        }
        #[expect(clippy::cast_possible_truncation, reason = "any bits will do")]
        let at = self.hasher.hash_one((&text, &database)) as usize % KNOWN_TEXTS_MAX;
        let place = &self.places[at];
        if let Some(known) = &*place.load()
            && known.text == text
            && known.database == database
        {
            return ReadText::clone(known);
        }
        let mut statement = lex(&text);
        let is_long = |shared: &SharedForm| shared.weight_bytes() > KNOWN_TEXT_BYTES_MAX;
        if statement.shared.as_ref().is_some_and(is_long) {
            return ReadText { database, text, statement };
        }
        if statement.normal.as_str() == &*text {
            statement.normal = NormalForm::as_told(Arc::clone(&text));
        }
        let read = ReadText { database, text, statement };
        place.store(Some(Arc::new(read.clone())));
        read
    }
}
