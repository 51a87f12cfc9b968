//! What a read depends on.

use std::collections::BTreeSet;

use crate::checks::calls::may_read_tokens;
use crate::checks::schema::shows_schema;
use hopcache_core::tags::TagId;

use crate::syntax::{Syntax, certain};
use crate::tags::id::{ids, share};
use crate::tags::limits::TAGS_MAX;
use crate::tags::names::Names;
use crate::tags::needs::needs;
use crate::tags::rules::{Need, TagSubject};
use crate::tags::volatility::Volatility;
use crate::tags::write::WriteEffects;

/// Everything that the result of a read depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadTags {
    needs: BTreeSet<Need>,
    ids: Vec<TagId>,
    volatility: Volatility,
}

impl ReadTags {
    /// The tags of `statement`, for any parameters.
    #[must_use]
    pub fn of(statement: &str) -> Self {
        let Some(Syntax { query, .. }) = certain(statement) else {
            if shows_schema(statement) {
                let tags = Self::from_few(BTreeSet::from([Need::Schema]));
                return Self { volatility: Volatility::Stable, ..tags };
            }
            let anything = Self::anything();
            return if may_read_tokens(statement) { anything } else { anything.without_tokens() };
        };
        let found = Names::of(&query).and_then(|names| needs(&query, &names));
        let tags = found.map_or_else(Self::anything, Self::from_needs);
        Self { volatility: Volatility::of(statement), ..tags }
    }

    /// The tags of a read about which nothing is known: every write touches it, and it is volatile.
    #[must_use]
    pub fn anything() -> Self {
        Self::from_few(BTreeSet::from([Need::Anything, Need::Tokens]))
    }

    /// The same read, if the client gets a result that tells what the database has not: a warning of an unknown label, type or key.
    #[must_use]
    pub fn with_tokens(mut self) -> Self {
        self.needs.insert(Need::Tokens);
        let volatility = self.volatility;
        Self { volatility, ..Self::from_few(self.needs) }
    }

    fn without_tokens(mut self) -> Self {
        self.needs.remove(&Need::Tokens);
        Self::from_few(self.needs)
    }

    /// The tags of a read with these needs; those of anything that is written if there are too many. Its functions are not known,
    /// so it is volatile.
    #[must_use]
    pub fn from_needs(mut needs: BTreeSet<Need>) -> Self {
        // What touches the second touches the first.
        let found: BTreeSet<String> = needs.iter().filter_map(Need::found_label).cloned().collect();
        needs.retain(|need| !matches!(need, Need::LabelAt(name) if found.contains(name)));
        let is_anything = needs.contains(&Need::Anything) && needs.len() > 1;
        let has_tokens = needs.contains(&Need::Tokens);
        let found = Self::from_few(needs);
        match is_anything || found.ids.len() > TAGS_MAX {
            true if has_tokens => Self::anything(),
            true => Self::anything().without_tokens(),
            false => found,
        }
    }

    fn from_few(needs: BTreeSet<Need>) -> Self {
        let ids = ids(needs.iter().flat_map(Need::marks).chain([TagSubject::Everything]));
        Self { needs, ids, volatility: Volatility::Volatile }
    }

    /// The needs, for people.
    #[must_use]
    pub const fn needs(&self) -> &BTreeSet<Need> {
        &self.needs
    }

    /// The needs in the words of Cypher, each with the number of the mark that a write has to leave for it.
    #[must_use]
    pub fn words(&self) -> Vec<(TagId, String)> {
        let words = |need: &Need| Some((TagId::from(*need.marks().first()?), need.to_string()));
        self.needs.iter().filter_map(words).collect()
    }

    /// Whether nothing is known of the read.
    #[must_use]
    pub fn is_anything(&self) -> bool {
        self.needs.contains(&Need::Anything)
    }

    /// Whether the result can change while the graph stays, with these parameters (one PackStream map). The clock, chance,
    /// files and configuration can change it then, and so can a function or a procedure that is not known.
    ///
    /// ```
    /// let is_volatile = |read: &str| hopcache_cypher::tags::ReadTags::of(read).is_volatile(&[0xa0]);
    /// assert!(!is_volatile("MATCH (n:A) RETURN toUpper(n.name)"));
    /// assert!(is_volatile("MATCH (n:A) WHERE n.day = date() RETURN n.name"));
    /// assert!(is_volatile("CALL db.index.fulltext.queryNodes('names', 'Ada')"));
    /// ```
    #[must_use]
    pub fn is_volatile(&self, params: &[u8]) -> bool {
        self.volatility.is_volatile(params)
    }

    /// What else than the graph the result depends on.
    #[must_use]
    pub const fn volatility(&self) -> Volatility {
        self.volatility
    }

    /// The tags as sorted numbers, at most [`TAGS_MAX`].
    #[must_use]
    pub fn ids(&self) -> &[TagId] {
        &self.ids
    }

    /// Whether the write may change the result. If not, the result is one that Neo4j may give after the write as well.
    #[must_use]
    pub fn touched_by(&self, effects: &WriteEffects) -> bool {
        share(&self.ids, effects.ids())
    }
}
