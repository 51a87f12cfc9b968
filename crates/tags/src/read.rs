//! What a read depends on.

use std::collections::BTreeSet;

use hopcache_core::tags::TagId;

use crate::id::{ids, share};
use crate::limits::TAGS_MAX;
use crate::names::Names;
use crate::needs::needs;
use crate::parse::parse;
use crate::rules::{Mark, Need};
use crate::write::WriteEffects;

/// Everything that the result of a read depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadTags {
    needs: BTreeSet<Need>,
    ids: Vec<TagId>,
}

impl ReadTags {
    /// The tags of `statement`, for any parameters.
    #[must_use]
    pub fn of(statement: &str) -> Self {
        let Ok(query) = parse(statement) else { return Self::anything() };
        let Some(names) = Names::of(&query) else { return Self::anything() };
        Self::from_needs(needs(&query, &names))
    }

    /// The tags of a read about which nothing is known: every write touches it.
    #[must_use]
    pub fn anything() -> Self {
        Self::from_needs(BTreeSet::from([Need::Anything]))
    }

    /// The tags of a read with these needs; [`ReadTags::anything`] if there are too many.
    #[must_use]
    pub fn from_needs(needs: BTreeSet<Need>) -> Self {
        let is_anything = needs.contains(&Need::Anything) && needs.len() > 1;
        let found = ids(needs.iter().flat_map(Need::marks).chain([Mark::Everything]));
        if is_anything || found.len() > TAGS_MAX { Self::anything() } else { Self { needs, ids: found } }
    }

    /// The needs, for people.
    #[must_use]
    pub const fn needs(&self) -> &BTreeSet<Need> {
        &self.needs
    }

    /// Whether nothing is known of the read.
    #[must_use]
    pub fn is_anything(&self) -> bool {
        self.needs.contains(&Need::Anything)
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
