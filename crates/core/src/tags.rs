//! Tags: the things that an entry depends on, and that an invalidation names.
//!
//! An invalidation of a tag ends every entry that has it. Today an entry has one tag, its database. A new kind of tag
//! is added here; entries, leases, the invalidation log and purges pass tags on without looking inside.

use crate::key::DatabaseTag;

/// One thing that an entry may depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tag {
    /// A database: every entry that was read from it.
    Database(DatabaseTag),
}

/// Everything that an entry depends on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tags {
    database: DatabaseTag,
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
}
