//! What a bookmark of Neo4j says, and between which transactions a result was read.
//!
//! A bookmark names transactions, at most one for each database. A read that carries it sees them, and all before them. Its
//! form, as Neo4j 5.26 writes it, is `FB:` and the base64 of PackStream: a list whose items are 16 bytes (the database's
//! UUID) and an integer (the transaction's id) without a marker around the two; then a list of extensions, empty so far.
//!
//! Whatever has another form is not understood, and nothing is decided by it: Neo4j is asked with it as it is.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hopcache_packstream::{Reader, Token, Writer};

use crate::limits::{BOOKMARK_BYTES_MAX, BOOKMARK_POSITIONS_MAX};
use crate::proof::ServerState;
use crate::wire::at_most;

const PREFIX: &str = "FB:";
/// Bytes of one position between nodes and in entries: the database and the id.
const POSITION_BYTES: usize = 24;

/// A database, as its server names it in bookmarks. A restored database keeps it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct DatabaseUuid(pub [u8; 16]);

impl DatabaseUuid {
    /// That of `system`, on every server: as bookmarks of Neo4j 5.26.12 and 2026.09.0 have it (`NAMED_SYSTEM_DATABASE_ID`).
    pub const SYSTEM: Self = Self([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);

    /// 32 hexadecimal digits.
    #[must_use]
    pub fn to_hex(&self) -> String {
        format!("{:032x}", u128::from_be_bytes(self.0))
    }

    /// Reads 32 hexadecimal digits.
    #[must_use]
    pub fn from_hex(text: &str) -> Option<Self> {
        let uuid = u128::from_str_radix(text, 16).ok().filter(|_| text.len() == 32)?;
        Some(Self(uuid.to_be_bytes()))
    }
}

/// The number of a transaction in its database; later ones have higher numbers, until the database is restored.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
pub struct TransactionId(pub u64);

/// Plain data: a transaction of a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct Position {
    /// Which database.
    pub database: DatabaseUuid,
    /// Which transaction.
    pub id: TransactionId,
}

/// Positions, at most one for each database. The empty one asks for nothing and covers nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(transparent)]
pub struct Bookmark {
    /// In the order of their databases.
    positions: Vec<Position>,
}

impl Bookmark {
    /// No position.
    pub const NONE: Self = Self { positions: Vec::new() };

    /// Reads a bookmark; nothing where it is not understood, or names more databases than a request may
    /// ([`BOOKMARK_POSITIONS_MAX`] less one, so that there is a place for the request's own database).
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let encoded = text.strip_prefix(PREFIX).filter(|encoded| encoded.len() <= BOOKMARK_BYTES_MAX)?;
        let bytes = STANDARD.decode(encoded).ok()?;
        let mut reader = Reader::new(&bytes);
        let Token::List(count) = reader.token().ok()? else { return None };
        if count == 0 || count >= BOOKMARK_POSITIONS_MAX {
            return None;
        }
        let mut read = Self::NONE;
        for _ in 0..count {
            let Token::Bytes(uuid) = reader.token().ok()? else { return None };
            let Token::Int(id) = reader.token().ok()? else { return None };
            let id = TransactionId(u64::try_from(id).ok()?);
            read.add(Position { database: DatabaseUuid(uuid.try_into().ok()?), id });
        }
        let is_plain = matches!(reader.token(), Ok(Token::List(0))) && reader.is_empty();
        is_plain.then_some(read)
    }

    /// Reads the bookmarks of one request; nothing where one of them is not understood, or all together name too many
    /// databases.
    #[must_use]
    pub fn parse_all<T: AsRef<str>>(texts: &[T]) -> Option<Self> {
        let mut all = Self::NONE;
        for text in texts {
            all.add_all(&Self::parse(text.as_ref())?);
        }
        (all.positions.len() < BOOKMARK_POSITIONS_MAX).then_some(all)
    }

    /// As Neo4j writes it; nothing where it is empty.
    #[must_use]
    pub fn encode(&self) -> Option<String> {
        if self.is_empty() {
            return None;
        }
        let mut writer = Writer::new();
        writer.list(self.positions.len());
        for Position { database, id } in &self.positions {
            writer.bytes(&database.0);
            writer.int(i64::try_from(id.0).unwrap_or(i64::MAX));
        }
        writer.list(0);
        Some(format!("{PREFIX}{}", STANDARD.encode(writer.into_bytes())))
    }

    /// Whether it names no transaction.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.positions.is_empty()
    }

    /// Its positions, in the order of their databases.
    #[must_use]
    pub fn positions(&self) -> &[Position] {
        &self.positions
    }

    /// Its position in a database.
    #[must_use]
    pub fn in_database(&self, database: DatabaseUuid) -> Option<Position> {
        self.positions.iter().copied().find(|position| position.database == database)
    }

    /// Whether what carried this bookmark saw all that `asked` names: in each of those databases a transaction that is as
    /// late, or later.
    #[must_use]
    pub fn covers(&self, asked: &Self) -> bool {
        let sees = |asked: &Position| self.in_database(asked.database).is_some_and(|own| own.id >= asked.id);
        asked.positions.iter().all(sees)
    }

    /// Adds a position; of two in one database the later one stays.
    pub fn add(&mut self, position: Position) {
        match self.positions.binary_search_by_key(&position.database, |each| each.database) {
            Ok(place) => {
                let known = &mut self.positions[place];
                known.id = known.id.max(position.id);
            }
            Err(place) => self.positions.insert(place, position),
        }
    }

    /// Adds all positions of another.
    pub fn add_all(&mut self, other: &Self) {
        other.positions.iter().for_each(|position| self.add(*position));
    }

    /// This one and another position.
    #[must_use]
    pub fn with(mut self, position: Option<Position>) -> Self {
        position.into_iter().for_each(|position| self.add(position));
        self
    }

    /// Appends it in the form that nodes and entries use: how many positions, then each.
    pub fn write(&self, out: &mut Vec<u8>) {
        let positions = self.positions.get(..BOOKMARK_POSITIONS_MAX).unwrap_or(&self.positions);
        out.push(u8::try_from(positions.len()).unwrap_or(0));
        positions.iter().for_each(|position| write_position(position, out));
    }

    /// Reads [`Bookmark::write`]'s bytes off the front; nothing where these are none.
    #[must_use]
    pub fn read(bytes: &mut &[u8]) -> Option<Self> {
        let (count, rest) = bytes.split_first()?;
        *bytes = rest;
        if usize::from(*count) > BOOKMARK_POSITIONS_MAX {
            return None;
        }
        let mut read = Self::NONE;
        for _ in 0..*count {
            read.add(read_position(bytes)?);
        }
        Some(read)
    }
}

/// Between which transactions a result was read: it sees all of `from`, and nothing after `to`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "(Bookmark, Position)")]
pub struct ReadRange {
    from: Bookmark,
    to: Position,
    /// Entries have it, and answers do not.
    #[serde(skip)]
    under: Option<ServerState>,
}

impl ReadRange {
    /// Longest form of [`ReadRange::write`], in bytes.
    pub const BYTES_MAX: usize = 1 + (BOOKMARK_POSITIONS_MAX + 1) * POSITION_BYTES + 1 + ServerState::BYTES;

    /// The range of a run that carried `from` and ended at `to` in its own database. There is none where ids have gone back
    /// in between, as they do when a database is restored, or where `from` has more positions than an entry keeps.
    #[must_use]
    pub fn new(from: Bookmark, to: Position) -> Option<Self> {
        let has_gone_back = from.in_database(to.database).is_some_and(|own| own.id > to.id);
        let fits = from.positions.len() <= BOOKMARK_POSITIONS_MAX;
        (fits && !has_gone_back).then_some(Self { from, to, under: None })
    }

    /// The same range, of a run that began when its node knew this of the server.
    #[must_use]
    pub fn begun_under(self, under: Option<ServerState>) -> Self {
        Self { under, ..self }
    }

    /// What its node knew of the server when the run began.
    #[must_use]
    pub fn under(&self) -> Option<ServerState> {
        self.under
    }

    /// The transaction of its own database that the run carried: it has seen at least that. Zero: it carried none.
    #[must_use]
    pub fn carried(&self) -> TransactionId {
        self.from.in_database(self.to.database).map_or(TransactionId(0), |own| own.id)
    }

    /// What its run carried.
    #[must_use]
    pub fn from(&self) -> &Bookmark {
        &self.from
    }

    /// The last transaction that was committed when its run ended.
    #[must_use]
    pub fn to(&self) -> Position {
        self.to
    }

    /// The bookmark of an answer to a request with these: they, and the range's end, so that what is read with it never
    /// goes back behind this answer.
    #[must_use]
    pub fn bookmark_for(&self, asked: &Bookmark) -> Bookmark {
        asked.clone().with(Some(self.to))
    }

    /// Appends it in the form that entries use.
    pub fn write(&self, out: &mut Vec<u8>) {
        self.from.write(out);
        write_position(&self.to, out);
        out.push(u8::from(self.under.is_some()));
        self.under.iter().for_each(|under| under.write(out));
    }

    /// Reads [`ReadRange::write`]'s bytes off the front; nothing where these are none.
    #[must_use]
    pub fn read(bytes: &mut &[u8]) -> Option<Self> {
        let from = Bookmark::read(bytes)?;
        let range = Self::new(from, read_position(bytes)?)?;
        let (has_state, rest) = bytes.split_first()?;
        *bytes = rest;
        match has_state {
            0 => Some(range),
            1 => Some(range.begun_under(Some(ServerState::read(bytes)?))),
            _ => None,
        }
    }

    /// Bytes that it keeps alive.
    #[must_use]
    pub fn weight_bytes(&self) -> usize {
        size_of::<Self>() + self.from.positions.len() * POSITION_BYTES
    }
}

impl<'de> serde::Deserialize<'de> for Bookmark {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let positions = at_most::<_, Position, BOOKMARK_POSITIONS_MAX>(from)?;
        Ok(positions.into_iter().fold(Self::NONE, |all, position| all.with(Some(position))))
    }
}

/// The ids of a range go back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the ids of a range go back")]
pub struct BadRange;

impl TryFrom<(Bookmark, Position)> for ReadRange {
    type Error = BadRange;

    fn try_from((from, to): (Bookmark, Position)) -> Result<Self, BadRange> {
        Self::new(from, to).ok_or(BadRange)
    }
}

fn write_position(position: &Position, out: &mut Vec<u8>) {
    out.extend_from_slice(&position.database.0);
    out.extend_from_slice(&position.id.0.to_be_bytes());
}

fn read_position(bytes: &mut &[u8]) -> Option<Position> {
    let (database, rest) = bytes.split_first_chunk::<16>()?;
    let (id, rest) = rest.split_first_chunk::<8>()?;
    *bytes = rest;
    Some(Position { database: DatabaseUuid(*database), id: TransactionId(u64::from_be_bytes(*id)) })
}
