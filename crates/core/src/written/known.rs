//! Which database each name leads to at this node's own Neo4j: what belongs to another database is never served here.
//!
//! A database is named by the UUID that is in its bookmarks. Nodes that write the address of one Neo4j in different ways agree on it,
//! and another Neo4j has another one. Where Neo4j is silent, or tells no transactions, the address decides instead: a *stand-in*, made
//! of the address and the name.
//!
//! Only this node's Neo4j tells what holds here. What other nodes and the store have is of a database, and says nothing of names:
//! nodes with the same key may have another Neo4j. Schedule:
//!   a node is started with a copied configuration, before another Neo4j · it finds the other cluster's marks and entries in Redis ·
//!   it asks its own Neo4j once, and takes none of the entries.

use std::collections::BTreeMap;

use crate::bookmark::{DatabaseUuid, Position, TransactionId};
use crate::key::{DatabaseTag, ServerTag};
use crate::limits::WRITTEN_DATABASES_MAX;
use crate::time::MonoTime;

/// Plain data: the database behind a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known {
    /// Its UUID, or a stand-in.
    pub database: DatabaseUuid,
    /// Whether this node's Neo4j has said so, and not only the store, which remembers it of an earlier time.
    pub is_confirmed: bool,
    /// A transaction as late as all that had ended at this time.
    pub newest: Option<(TransactionId, MonoTime)>,
}

/// What is new when a name is found to lead to a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Learned {
    /// Nothing.
    Nothing,
    /// The name was not known.
    Name,
    /// It led to another database. All other names are forgotten: the whole server may be another one.
    AnotherDatabase,
}

/// Plain data: whose data a node serves under a name. It travels with questions to other nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Whose {
    /// The node's Neo4j.
    pub server: ServerTag,
    /// The database; `None` if the node does not know it.
    pub database: Option<DatabaseUuid>,
}

/// The names that a node has learned.
#[derive(Debug, Clone, Default)]
pub(super) struct KnownDatabases {
    server: ServerTag,
    names: BTreeMap<DatabaseTag, Known>,
}

impl Known {
    /// This node's Neo4j has answered a question of `asked`, or a run that began then.
    #[must_use]
    pub fn by_answer(position: Position, asked: MonoTime) -> Self {
        Self { database: position.database, is_confirmed: true, newest: Some((position.id, asked)) }
    }
}

impl Whose {
    /// Bytes of [`Whose::write`].
    pub const BYTES: usize = 8 + 1 + 16;

    /// Whether two nodes serve the same data: of one database, or, where one of them does not know it, of one address.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        match (self.database, other.database) {
            (Some(own), Some(other)) => own == other,
            _ => self.server == other.server,
        }
    }

    /// Appends it in the form that nodes use.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.server.0.to_be_bytes());
        out.push(u8::from(self.database.is_some()));
        out.extend_from_slice(&self.database.map_or([0; 16], |database| database.0));
    }

    /// Reads [`Whose::write`]'s bytes off the front; `None` if these are none.
    #[must_use]
    pub fn read(bytes: &mut &[u8]) -> Option<Self> {
        let (server, rest) = bytes.split_first_chunk::<8>()?;
        let (is_known, rest) = rest.split_first()?;
        let (database, rest) = rest.split_first_chunk::<16>()?;
        *bytes = rest;
        let database = match is_known {
            0 => None,
            1 => Some(DatabaseUuid(*database)),
            _ => return None,
        };
        Some(Self { server: ServerTag(u64::from_be_bytes(*server)), database })
    }
}

impl DatabaseUuid {
    /// Stands in for the UUID of the database that has this name at this address.
    #[must_use]
    pub fn standing_in(server: ServerTag, name: DatabaseTag) -> Self {
        Self((u128::from(server.0) << 64 | u128::from(name.0)).to_be_bytes())
    }
}

impl KnownDatabases {
    pub(super) fn at(server: ServerTag) -> Self {
        Self { server, names: BTreeMap::new() }
    }

    pub(super) fn of(&self, name: DatabaseTag) -> Option<&Known> {
        self.names.get(&name)
    }

    pub(super) fn names(&self) -> impl Iterator<Item = (DatabaseTag, DatabaseUuid)> {
        self.names.iter().map(|(name, known)| (*name, known.database))
    }

    pub(super) fn whose(&self, name: DatabaseTag) -> Whose {
        Whose { server: self.server, database: self.of(name).map(|known| known.database) }
    }

    /// What results of this name belong to, if their runs do not tell.
    pub(super) fn owner(&self, name: DatabaseTag) -> DatabaseUuid {
        self.of(name).map_or_else(|| DatabaseUuid::standing_in(self.server, name), |known| known.database)
    }

    pub(super) fn forget(&mut self, name: DatabaseTag) {
        self.names.remove(&name);
    }

    pub(super) fn learn(&mut self, name: DatabaseTag, found: Known) -> Learned {
        match self.names.get_mut(&name) {
            Some(known) if known.database == found.database => {
                known.is_confirmed |= found.is_confirmed;
                known.newest = found.newest.or(known.newest);
                Learned::Nothing
            }
            // The store's word is of an earlier time.
            Some(known) if known.is_confirmed && !found.is_confirmed => Learned::Nothing,
            Some(_) => {
                self.names = BTreeMap::from([(name, found)]);
                Learned::AnotherDatabase
            }
            None => {
                if self.names.len() >= WRITTEN_DATABASES_MAX {
                    // It is asked about again when it is needed.
                    self.names.pop_first();
                }
                self.names.insert(name, found);
                Learned::Name
            }
        }
    }
}
