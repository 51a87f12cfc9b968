//! Tags: the things that an entry depends on, and that an invalidation or a write names.
//!
//! An invalidation of a tag ends every entry that has it. Such a tag is a database today. Entries, leases, the
//! invalidation log and purges pass these tags on without looking inside.
//!
//! A write names finer tags: labels, relationship types and property keys as numbers ([`TagId`]). `hopcache_cypher::tags` reads
//! them from statements. A write ends an entry if both share a number.
//!
//! Where a write says by which values it found the nodes that it changed ([`Refinement`]), and a read by which values it finds its own
//! ([`NeedsShape`]), a shared number is not enough: the values have to meet (`write_position`).

mod anchors;
mod label_pairs;
mod reads;
mod refined;

use crate::key::DatabaseTag;

pub(crate) use anchors::{AnchorGroup, KeyHash};
pub use anchors::{AnchorHash, ClassId, Cover, Key};
pub(crate) use reads::{ConstrainedKey, Roles};
pub use reads::{Depends, NeedClasses, NeedRole, NeedsShape, NodeConstraint, ShapeNeed, Viewer};
pub use refined::{
    NotARefinement, RefinedFact, RefinedRole, Refinement, Refiner, TouchedForm, TouchedRole, TouchedTags,
};

/// One thing that an entry may depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub enum Tag {
    /// A database: every entry that was read from it.
    Database(DatabaseTag),
}

/// Everything that an entry depends on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tags {
    database: DatabaseTag,
}

/// A thing in a graph that a read watches and a write marks, as a number. Two things with one number count as one, which
/// ends more entries than necessary and never fewer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct TagId(pub u64);

/// What a write may have changed.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Touched {
    /// Anything in its database.
    Anything,
    /// Only what these tags stand for, as far as nothing refines them; nothing if there are none.
    These(TouchedTags),
}

impl TagId {
    /// The mark of foreign transactions: nobody knows what they touch. No read depends on it; without it none is proved.
    pub const FOREIGN: Self = Self(u64::MAX);
    /// The mark of labels, relationship types and property keys that may be new. A transaction that is rolled back leaves it too: what
    /// it has made of them stays.
    pub const TOKENS: Self = Self(u64::MAX - 1);
}

impl Touched {
    /// What these tags stand for, however it was changed.
    #[must_use]
    pub fn tags(tags: impl IntoIterator<Item = TagId>) -> Self {
        Self::These(TouchedTags::new(tags, None))
    }

    /// What two writes may have changed that are committed together.
    #[must_use]
    pub fn and(self, other: &Self) -> Self {
        let (Self::These(own), Self::These(others)) = (&self, other) else { return Self::Anything };
        own.and(others).map_or(Self::Anything, Self::These)
    }

    /// Nothing.
    #[must_use]
    pub fn nothing() -> Self {
        Self::tags([])
    }

    /// Labels, types and keys that may be new, and nothing else.
    #[must_use]
    pub fn tokens() -> Self {
        Self::tags([TagId::TOKENS])
    }

    /// Whether it is certain that it has changed nothing.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        matches!(self, Self::These(touched) if touched.tags().is_empty())
    }
}

impl Tags {
    /// The tags of an entry for which only its database is known.
    #[must_use]
    pub const fn of_database(database: DatabaseTag) -> Self {
        Self { database }
    }

    /// The database that the entry was read from.
    #[must_use]
    pub const fn database(&self) -> DatabaseTag {
        self.database
    }

    /// Whether an invalidation of `tag` ends an entry with these tags.
    #[must_use]
    pub fn contains(&self, tag: Tag) -> bool {
        match tag {
            Tag::Database(database) => self.database == database,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalidation_of_a_database_ends_its_entries_and_no_others() {
        let tags = Tags::of_database(DatabaseTag(7));
        assert!(tags.contains(Tag::Database(DatabaseTag(7))));
        assert!(!tags.contains(Tag::Database(DatabaseTag(8))));
    }

    #[test]
    fn writes_that_are_committed_together_have_changed_what_each_has() {
        let these = |tags: &[u64]| Touched::tags(tags.iter().copied().map(TagId));
        assert_eq!(these(&[1, 3]).and(&these(&[2, 3])), these(&[1, 2, 3]));
        assert_eq!(these(&[1]).and(&Touched::nothing()), these(&[1]));
        assert_eq!(Touched::nothing().and(&these(&[1])), these(&[1]));
        assert_eq!(these(&[1]).and(&Touched::Anything), Touched::Anything);
        assert_eq!(Touched::Anything.and(&these(&[1])), Touched::Anything);
        let many: Vec<u64> = (0..=crate::limits::WRITTEN_TAGS_OF_WRITE_MAX as u64).collect();
        assert_eq!(these(&many[1..]).and(&these(&many[..1])), Touched::Anything);
    }
}
