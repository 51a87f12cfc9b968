//! How far each database has been written through this cluster. It decides which entries a write has ended.
//!
//! A write's bookmark names a transaction that is as late as the write, or later. So an entry whose run carried that
//! transaction has seen the write. An entry whose run carried less may be older: the write has ended it.
//!
//! Below, a *mark* is a [`WritePosition`].
//!
//! A database has one mark for everything, and one for each tag ([`TagId`]: a label, a type, a property key). A write marks
//! what it has touched. An entry is ended if its run carried less than the latest mark of the tags that it depends on, or
//! than the mark for everything.
//!
//! A write that says by which values it found what it changed ends less: only what may have found the same (`touches`, `sketch`).
//! So each write is told as an event ([`WriteEvent`]): what an earlier one says is not known by a later one. Whoever may have missed one
//! takes the marks instead, of which nothing more is known.
//!
//! A mark is of a database, by its UUID, and goes by the names that lead to it. Nodes before different Neo4j servers may share names
//! and store: their marks stand side by side (`known`).
//!
//! The store keeps the marks, and a log of the last events. A mark is a state: two of the same thing merge to the later one. So
//! repetition and order of messages change nothing, and what is lost is in the marks.
//!
//! Ids of transactions go back when a database is restored (measured on 5.26: the same UUID, and the next writes use the same numbers again). A mark therefore has an epoch
//! before its id. The node that sees ids go back begins the next epoch, and purges the database. Example: the mark is
//! (0, 90) · Neo4j is restored to 40 · a node asks Neo4j and hears 41 · it tells (1, 41), which is later than (0, 90).
//!
//! A write whose answer was lost has an id that nobody knows yet. Until somebody asks Neo4j, the mark is *unsettled*:
//! later than every id, so that no entry is served. It is settled by the next epoch. Settling never undoes another
//! write, which shows in this schedule:
//!   the mark is (0, unsettled) · node A asks Neo4j and hears 50 · node B's write is 51, and B tells (1, unsettled) ·
//!   A tells (1, 50), which is earlier and changes nothing · the next to ask hears 51 or more, and tells (2, 51).

mod board;
mod event;
mod exclusions;
mod known;
mod names;
mod sketch;
mod table;
mod tag_positions;
mod touches;
mod windows;

use crate::bookmark::{DatabaseUuid, Position, ReadRange, TransactionId};
use crate::key::DatabaseTag;
use crate::tags::TagId;
use tag_positions::TagPositions;

pub use board::{EventCursor, StorePoll, WriteBoard};
pub use event::WriteEvent;
pub use exclusions::{Accounted, ExclusionsAsked, LabelPair};
pub use known::{DataOwner, KnownDatabase, NameChange};
pub use table::{Change, WritePositionTable};

/// Which of its numberings a database's ids belong to.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
pub struct WriteEpoch(pub u64);

/// How far one database has been written. Entries whose run carried less are ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct WritePosition {
    database: DatabaseUuid,
    epoch: WriteEpoch,
    id: TransactionId,
}

/// Plain data: a mark of a database under one of its names. Nodes and the store pass these on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct WriteRecord {
    /// The name.
    pub name: DatabaseTag,
    /// The mark.
    pub written: WritePosition,
    /// What it marks; `None`: everything.
    pub tag: Option<TagId>,
}

/// What a record is the mark of: a database by one of its names, and a tag of it or everything.
pub type Place = (DatabaseTag, DatabaseUuid, Option<TagId>);

/// Later than every id.
const UNSETTLED: TransactionId = TransactionId(u64::MAX);

impl WritePosition {
    /// The mark of a write at this position, or before it.
    #[must_use]
    pub fn at(epoch: WriteEpoch, position: Position) -> Self {
        Self { database: position.database, epoch, id: position.id }
    }

    /// A mark that ends nothing.
    #[must_use]
    pub fn nothing(database: DatabaseUuid) -> Self {
        Self { database, epoch: WriteEpoch(0), id: TransactionId(0) }
    }

    /// Whether it ends nothing in its database.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        *self == Self::nothing(self.database)
    }

    /// The database.
    #[must_use]
    pub fn database(&self) -> DatabaseUuid {
        self.database
    }

    /// The numbering of its id.
    #[must_use]
    pub fn epoch(&self) -> WriteEpoch {
        self.epoch
    }

    /// The transaction that a run has to carry; `None` while nobody knows it.
    #[must_use]
    pub fn position(&self) -> Option<Position> {
        (self.id != UNSETTLED).then_some(Position { database: self.database, id: self.id })
    }

    /// Whether some write's id is not known yet.
    #[must_use]
    pub fn is_unsettled(&self) -> bool {
        self.id == UNSETTLED
    }

    /// Whether a run of this range has seen everything up to the mark.
    #[must_use]
    pub fn is_seen_by(&self, range: &ReadRange) -> bool {
        let carried = range.from().in_database(self.database).map_or(TransactionId(0), |own| own.id);
        range.to().database == self.database && carried >= self.id
    }

    /// Whether both count the same ids of the same database.
    #[must_use]
    pub fn is_comparable(&self, other: &Self) -> bool {
        self.database == other.database && self.epoch == other.epoch
    }

    /// Whether it ends all that `other` ends, in the same database.
    #[must_use]
    pub fn is_at_or_after(&self, other: &Self) -> bool {
        self.database == other.database && self.rank() >= other.rank()
    }

    fn in_doubt(self) -> Self {
        Self { id: UNSETTLED, ..self }
    }

    /// Appends it in the form that the head of a question has.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.database.0);
        out.extend_from_slice(&self.epoch.0.to_be_bytes());
        out.extend_from_slice(&self.id.0.to_be_bytes());
    }

    /// Reads [`WritePosition::write`]'s bytes off the front; `None` if these are none.
    #[must_use]
    pub fn read(bytes: &mut &[u8]) -> Option<Self> {
        let (database, rest) = bytes.split_first_chunk::<16>()?;
        let (epoch, rest) = rest.split_first_chunk::<8>()?;
        let (id, rest) = rest.split_first_chunk::<8>()?;
        *bytes = rest;
        Some(Self {
            database: DatabaseUuid(*database),
            epoch: WriteEpoch(u64::from_be_bytes(*epoch)),
            id: TransactionId(u64::from_be_bytes(*id)),
        })
    }

    fn rank(&self) -> (WriteEpoch, TransactionId) {
        (self.epoch, self.id)
    }

    fn next_epoch(&self) -> WriteEpoch {
        WriteEpoch(self.epoch.0.saturating_add(1))
    }
}

/// A write has a dozen records: `format!` takes ten times as long for each.
fn push_hex(text: &mut String, bytes: &[u8]) {
    let digit = |nibble: u8| char::from(b"0123456789abcdef"[usize::from(nibble & 0xF)]);
    text.extend(bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(*byte)]));
}

impl WriteRecord {
    /// The mark for everything.
    #[must_use]
    pub fn of_all(name: DatabaseTag, written: WritePosition) -> Self {
        Self { name, written, tag: None }
    }

    /// What it is the mark of. Of two records with the same place the later one holds.
    #[must_use]
    pub fn place(&self) -> Place {
        (self.name, self.written.database, self.tag)
    }

    /// The place of the mark for everything of the same database.
    #[must_use]
    pub fn place_of_all(&self) -> Place {
        (self.name, self.written.database, None)
    }

    /// As the store keeps it: the name, the database, the epoch before the id, and the tag if there is one, in hexadecimal
    /// digits of fixed length. The third part of two records is compared as text.
    #[must_use]
    pub fn to_text(&self) -> String {
        let WritePosition { database, epoch, id } = self.written;
        let mut text = String::with_capacity(16 + 1 + 32 + 1 + 32 + 1 + 16);
        push_hex(&mut text, &self.name.0.to_be_bytes());
        text.push(' ');
        push_hex(&mut text, &database.0);
        text.push(' ');
        push_hex(&mut text, &epoch.0.to_be_bytes());
        push_hex(&mut text, &id.0.to_be_bytes());
        if let Some(tag) = self.tag {
            text.push(' ');
            push_hex(&mut text, &tag.0.to_be_bytes());
        }
        text
    }

    /// Reads [`WriteRecord::to_text`]; `None` if the text is none.
    #[must_use]
    pub fn from_text(text: &str) -> Option<Self> {
        let hex = |text: &str| u64::from_str_radix(text, 16).ok();
        let mut parts = text.split(' ');
        let (name, database, rank) = (parts.next()?, parts.next()?, parts.next()?);
        let tag = parts.next();
        let has_lengths = name.len() == 16 && rank.len() == 32;
        let is_one = has_lengths && tag.is_none_or(|tag| tag.len() == 16) && parts.next().is_none();
        if !is_one || !text.is_ascii() {
            return None;
        }
        let database = DatabaseUuid::from_hex(database)?;
        let (epoch, id) = (WriteEpoch(hex(&rank[..16])?), TransactionId(hex(&rank[16..])?));
        let tag = match tag {
            Some(tag) => Some(TagId(hex(tag)?)),
            None => None,
        };
        Some(Self { name: DatabaseTag(hex(name)?), written: WritePosition { database, epoch, id }, tag })
    }
}
