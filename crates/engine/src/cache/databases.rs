//! Whose data this node serves: under each name only that of the database to which the name leads at this node's own Neo4j
//! (`core::written::KnownDatabase`). `writes::databases` finds that out.
//!
//! What comes from elsewhere is compared when it is taken, never when it is served: all copies in memory are of the databases that
//! are known. So a hit costs nothing more.

use hopcache_core::bookmark::DatabaseUuid;
use hopcache_core::entry::Head;
use hopcache_core::key::{DatabaseTag, ServerTag};
use hopcache_core::lease::StoredEntry;
use hopcache_core::proof::Report;
use hopcache_core::tags::Tag;
use hopcache_core::write_position::{KnownDatabase, NameChange};

use crate::cache::Cache;
use crate::cache::copy::MemoryCopy;
use crate::model::ask::Query;
use crate::model::ports::Scope;

impl Cache {
    /// The address of this node's Neo4j.
    pub(crate) fn server(&self) -> ServerTag {
        self.server
    }

    /// Notes what this node's Neo4j, or the store, says about a name. If it led to another database, this node forgets all copies,
    /// and the flights and forwards that may bring one. If it was not known, another node may have given answers of another database,
    /// since it has the same address.
    pub(crate) fn learn(&self, name: DatabaseTag, found: KnownDatabase) -> NameChange {
        let learned = self.written.learn(name, found);
        match learned {
            NameChange::Nothing => {}
            NameChange::Name => {
                let is_anothers = |copy: &MemoryCopy| {
                    copy.tags().contains(Tag::Database(name))
                        && copy.range().is_some_and(|range| range.to().database != found.database)
                };
                self.queued.drop_where(|_, copy| copy.is_some_and(is_anothers));
                self.remove_where(&|_, copy| is_anothers(copy));
            }
            NameChange::AnotherDatabase => {
                tracing::warn!("a database's name leads to another database: this node forgets all copies");
                self.forget(&Scope::All);
            }
        }
        learned
    }

    /// Notes what another node with the same address says about a name: it counts as the store's word, where nothing else is known.
    pub(crate) fn hear_of(&self, name: DatabaseTag, database: DatabaseUuid) {
        if self.written.known(name).is_none() {
            self.learn(name, KnownDatabase { database, is_confirmed: false, newest: None });
        }
    }

    /// A name may lead to another database by now: its copies are forgotten, and Neo4j is asked before others are taken.
    pub(crate) fn recheck(&self, name: DatabaseTag) {
        self.written.recheck(name);
        self.forget(&Scope::Tag(Tag::Database(name)));
    }

    /// Whether a stored entry is of another database than the one that its query names here. What cannot be read is of none.
    pub(crate) fn is_anothers(&self, query: &Query, stored: &StoredEntry) -> bool {
        let owner = self.written.owner(query.tags.database());
        Head::read(&stored.bytes).is_some_and(|head| head.database != owner)
    }

    /// The last report of the database behind a name.
    pub(crate) fn report(&self, name: DatabaseTag) -> Option<Report> {
        self.proofs.report(name, self.written.database_of(name)?)
    }
}
