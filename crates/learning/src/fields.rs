//! The fields of a result that may supply a next query's parameters: the scalars of its first rows, by column and path.
//!
//! For any result, both reading and memory are bounded. A scalar inside a list is no field, because its place has no
//! name. A long text or a float is none either. Fields beyond the bound are left out: a later row may be missing, never
//! a part of an earlier one. It decides nothing about lessons.

use std::borrow::Cow;

use hopcache_core::limits::{
    FIELD_NAME_BYTES_MAX, FIELD_TEXT_BYTES_MAX, FIELDS_BYTES_MAX, FIELDS_COLUMNS_MAX, FIELDS_DEPTH_MAX,
    FIELDS_LIST_ROWS_MAX, FIELDS_PLACES_MAX, FIELDS_READ_BYTES_MAX, FIELDS_STEPS_MAX,
};
use hopcache_core::result::ResultSet;
use hopcache_core::wire::{at_most, from_bytes, piece, to_bytes};
use hopcache_packstream::{Reader, Token, Writer, tag};

/// Bytes beside columns, places and scalars at most: rows, and a count of each.
const HEAD_BYTES: usize = 10 + 1 + 2 + 2;

/// Scalars of the first rows of a result.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct Fields {
    rows: u64,
    #[serde(deserialize_with = "at_most::<_, _, FIELDS_COLUMNS_MAX>")]
    columns: Vec<Box<str>>,
    #[serde(deserialize_with = "at_most::<_, _, FIELDS_PLACES_MAX>")]
    places: Vec<FieldPath>,
    #[serde(deserialize_with = "at_most::<_, _, FIELDS_BYTES_MAX>")]
    scalars: Vec<Scalar>,
}

/// A place in a row.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
struct FieldPath {
    column: u8,
    #[serde(deserialize_with = "at_most::<_, _, FIELDS_DEPTH_MAX>")]
    path: Vec<Box<str>>,
}

#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
struct Scalar {
    row: u8,
    place: u8,
    #[serde(with = "piece")]
    value: Vec<u8>,
}

/// A scalar and its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field<'a> {
    /// Its row, from zero.
    pub row: u8,
    /// Number of its column, from zero.
    pub column_at: u8,
    /// Name of its column.
    pub column: &'a str,
    /// Keys of maps or properties inside the column's value; empty for the value itself.
    pub path: &'a [Box<str>],
    /// An integer, a short text or a boolean, as canonical PackStream.
    pub value: &'a [u8],
}

impl Fields {
    /// The fields of a result. Any result is accepted; work and memory are bounded.
    #[must_use]
    pub fn of(result: &ResultSet) -> Self {
        let mut reading = Reading::new(result);
        let head = &result.records[..result.records.len().min(FIELDS_READ_BYTES_MAX)];
        let mut reader = Reader::new(head);
        for row in 0..FIELDS_LIST_ROWS_MAX {
            if u64::from(row) >= result.rows || reading.row(row, &mut reader).is_none() {
                break;
            }
        }
        reading.fields
    }

    /// The same fields with these names of columns: the result may have come from another spelling of its query. Without
    /// names, or if they cannot be told apart from left to right, the fields stay as they are.
    #[must_use]
    pub fn named(&self, columns: Option<&[Box<str>]>) -> Cow<'_, Self> {
        let Some(columns) = columns else { return Cow::Borrowed(self) };
        let is_named = self.columns.iter().eq(columns.iter().take(self.columns.len()));
        // A long name is left out, so places are known only if all columns are here.
        let is_whole = self.columns.len() == columns.len().min(FIELDS_COLUMNS_MAX);
        if is_named || !is_whole || columns.iter().any(|name| name.len() > FIELD_NAME_BYTES_MAX) {
            return Cow::Borrowed(self);
        }
        let columns = columns.iter().take(FIELDS_COLUMNS_MAX).cloned().collect();
        Cow::Owned(Self { columns, ..self.clone() })
    }

    /// The number of rows of the result, including those not kept here.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// The name of a column of so many, by its number from zero. `None` if some are not kept: it might be another one's.
    #[must_use]
    pub fn column(&self, at: usize, columns: usize) -> Option<&str> {
        let are_all = self.columns.len() >= columns.min(FIELDS_COLUMNS_MAX);
        self.columns.get(at).filter(|_| are_all).map(|name| &**name)
    }

    /// The scalar of a row at that place.
    #[must_use]
    pub fn value(&self, row: u8, column: &str, path: &[Box<str>]) -> Option<&[u8]> {
        let at = self.place(column, path)?;
        self.scalars.iter().find(|each| each.row == row && each.place == at).map(|each| &*each.value)
    }

    /// The values of all rows at that place as one list, in PackStream's canonical form. `None` if a row has none there, or was not read.
    #[must_use]
    pub fn list(&self, column: &str, path: &[Box<str>]) -> Option<Vec<u8>> {
        let at = self.place(column, path)?;
        let values = || self.scalars.iter().filter(|each| each.place == at);
        let is_whole = values().map(|each| u64::from(each.row)).eq(0..self.rows) && self.rows > 0;
        if !is_whole {
            return None;
        }
        let mut writer = Writer::new();
        writer.list(values().count());
        values().for_each(|each| writer.raw(&each.value));
        Some(writer.into_bytes())
    }

    /// The places whose values in all rows are this list together. Each scalar is looked at once.
    pub fn places_of_list(&self, list: &[u8]) -> Vec<(&str, &[Box<str>])> {
        let Some(items) = items_of(list, self.rows) else { return Vec::new() };
        // How many rows of each place are as in the list, one after the other.
        let mut equal = vec![0_usize; self.places.len()];
        for Scalar { row, place, value } in &self.scalars {
            let (row, place) = (usize::from(*row), usize::from(*place));
            if let Some(count) = equal.get_mut(place)
                && *count == row
                && items.get(row) == Some(&&**value)
            {
                *count += 1;
            }
        }
        let whole = self.places.iter().zip(equal).filter(|(_, equal)| *equal == items.len());
        let named = whole
            .filter_map(|(place, _)| Some((&**self.columns.get(usize::from(place.column))?, &*place.path)));
        named.collect()
    }

    /// All scalars, row by row, from left to right.
    pub fn scalars(&self) -> impl Iterator<Item = Field<'_>> {
        self.scalars.iter().filter_map(|each| {
            let place = self.places.get(usize::from(each.place))?;
            let column = self.columns.get(usize::from(place.column))?;
            Some(Field {
                row: each.row,
                column_at: place.column,
                column,
                path: &place.path,
                value: &each.value,
            })
        })
    }

    /// Their memory, for a cache.
    #[must_use]
    pub fn weight_bytes(&self) -> usize {
        let names: usize = self.columns.iter().map(|name| 16 + name.len()).sum();
        let places: usize = self
            .places
            .iter()
            .map(|place| 32 + place.path.iter().map(|key| 16 + key.len()).sum::<usize>())
            .sum();
        let scalars: usize = self.scalars.iter().map(|each| 32 + each.value.len()).sum();
        size_of::<Self>() + names + places + scalars
    }

    fn place(&self, column: &str, path: &[Box<str>]) -> Option<u8> {
        let is_it = |place: &FieldPath| {
            place.path == path
                && self.columns.get(usize::from(place.column)).is_some_and(|name| **name == *column)
        };
        u8::try_from(self.places.iter().position(is_it)?).ok()
    }

    /// Their bytes, at most [`FIELDS_BYTES_MAX`] for all that [`Fields::of`] and [`Fields::decode`] give.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        to_bytes(self)
    }

    /// Reads [`Fields::encode`]. Total: any bytes are the encoding of some fields, or none.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let is_short = bytes.len() <= FIELDS_BYTES_MAX;
        let fields: Self = is_short.then(|| from_bytes(bytes).ok())??;
        fields.is_sound().then_some(fields)
    }

    /// Whether names are short, each place is named once, and each scalar is at an existing place of an existing row.
    fn is_sound(&self) -> bool {
        let mut names = self.columns.iter().chain(self.places.iter().flat_map(|place| &place.path));
        let is_place = |(at, place): (usize, &FieldPath)| {
            usize::from(place.column) < self.columns.len() && !self.places[..at].contains(place)
        };
        let is_field = |each: &Scalar| {
            let mut reader = Reader::new(&each.value);
            let is_whole = reader.token().ok().and_then(scalar).is_some_and(|value| value == each.value);
            is_whole
                && each.row < FIELDS_LIST_ROWS_MAX
                && u64::from(each.row) < self.rows
                && usize::from(each.place) < self.places.len()
        };
        names.all(|name| name.len() <= FIELD_NAME_BYTES_MAX)
            && self.places.iter().enumerate().all(is_place)
            && self.scalars.iter().all(is_field)
            && self.scalars.is_sorted_by_key(|each| each.row)
    }
}

/// The items of a list with as many as there are rows, if that is a number of rows that may be read.
fn items_of(list: &[u8], rows: u64) -> Option<Vec<&[u8]>> {
    let mut reader = Reader::new(list);
    let Ok(Token::List(len)) = reader.token() else { return None };
    let is_whole = len > 0 && len <= usize::from(FIELDS_LIST_ROWS_MAX) && u64::try_from(len) == Ok(rows);
    is_whole.then(|| (0..len).map(|_| reader.skip().ok()).collect())?
}

fn count(len: usize) -> u8 {
    u8::try_from(len).unwrap_or(u8::MAX)
}

/// The bytes of a text with its length, which takes one byte, or two from 128 on.
fn text_bytes(text: &str) -> usize {
    1 + text.len() / 128 + text.len()
}

/// The canonical bytes of a token that may be a field.
fn scalar(token: Token<'_>) -> Option<Vec<u8>> {
    let mut writer = Writer::new();
    match token {
        Token::Bool(flag) => writer.bool(flag),
        Token::Int(number) => writer.int(number),
        Token::Str(text) if text.len() <= FIELD_TEXT_BYTES_MAX => writer.string(text),
        _ => return None,
    }
    Some(writer.into_bytes())
}

/// A result during reading, and the remaining bytes for its fields.
struct Reading {
    fields: Fields,
    room: usize,
    /// The number of values that may still be read.
    steps: usize,
    /// The number here of each column of the result; `None` if its name is too long or occurred before.
    columns: Vec<Option<u8>>,
}

impl Reading {
    fn new(result: &ResultSet) -> Self {
        let mut fields = Fields { rows: result.rows, ..Fields::default() };
        let mut room = FIELDS_BYTES_MAX - HEAD_BYTES;
        let mut columns = Vec::new();
        for name in result.fields.iter().take(FIELDS_COLUMNS_MAX) {
            let cost = text_bytes(name);
            let is_kept = name.len() <= FIELD_NAME_BYTES_MAX && cost <= room / 2 && {
                !fields.columns.iter().any(|other| **other == **name)
            };
            columns.push(is_kept.then(|| count(fields.columns.len())));
            if is_kept {
                room -= cost;
                fields.columns.push(name.as_str().into());
            }
        }
        Self { fields, room, steps: FIELDS_STEPS_MAX, columns }
    }

    /// `None` at the end of the result, or of the part that is read.
    fn row(&mut self, row: u8, reader: &mut Reader<'_>) -> Option<()> {
        let Token::List(len) = reader.token().ok()? else { return None };
        for at in 0..len {
            self.step()?;
            match self.columns.get(at).copied().flatten() {
                Some(column) => self.value(row, FieldPath { column, path: Vec::new() }, reader)?,
                None => {
                    reader.skip().ok()?;
                }
            }
        }
        Some(())
    }

    fn step(&mut self) -> Option<()> {
        self.steps = self.steps.checked_sub(1)?;
        Some(())
    }

    /// Reads the value at `place`, with its inner values.
    fn value(&mut self, row: u8, place: FieldPath, reader: &mut Reader<'_>) -> Option<()> {
        let mut ahead = reader.clone();
        match ahead.token().ok()? {
            Token::Map(pairs) if place.path.len() < FIELDS_DEPTH_MAX => {
                self.pairs(row, &place, pairs, &mut ahead)?;
                *reader = ahead;
            }
            Token::Struct { tag: tag::NODE, len: 4 } => {
                ahead.skip().ok()?;
                self.node(row, &place, &mut ahead)?;
                ahead.skip().ok()?;
                *reader = ahead;
            }
            token => {
                if let Some(value) = scalar(token) {
                    let place = self.taken(place, 3 + value.len())?;
                    self.fields.scalars.push(Scalar { row, place, value });
                }
                reader.skip().ok()?;
            }
        }
        Some(())
    }

    fn pairs(&mut self, row: u8, place: &FieldPath, pairs: usize, reader: &mut Reader<'_>) -> Option<()> {
        let from = self.fields.scalars.len();
        for _ in 0..pairs {
            self.step()?;
            let key = reader.key().ok()?;
            let mut inside = place.clone();
            inside.path.push(key.into());
            // A map that names a key twice: the second is not taken for a part of the first.
            if key.len() > FIELD_NAME_BYTES_MAX || self.has_inside(from, &inside) {
                reader.skip().ok()?;
            } else {
                self.value(row, inside, reader)?;
            }
        }
        Some(())
    }

    /// Whether any scalar since `from` is at a place or inside it.
    fn has_inside(&self, from: usize, place: &FieldPath) -> bool {
        let is_inside = |at: u8| {
            let found = self.fields.places.get(usize::from(at));
            found.is_some_and(|found| found.column == place.column && found.path.starts_with(&place.path))
        };
        self.fields.scalars[from..].iter().any(|each| is_inside(each.place))
    }

    /// Properties of a graph node, after its labels. A node inside a map of a map would be too deep.
    fn node(&mut self, row: u8, place: &FieldPath, reader: &mut Reader<'_>) -> Option<()> {
        reader.skip().ok()?;
        if place.path.len() >= FIELDS_DEPTH_MAX {
            reader.skip().ok()?;
            return Some(());
        }
        let Token::Map(pairs) = reader.token().ok()? else { return None };
        self.pairs(row, place, pairs, reader)
    }

    /// The number of a place, with room for `cost` more bytes; `None` without room.
    fn taken(&mut self, place: FieldPath, cost: usize) -> Option<u8> {
        let known = self.fields.places.iter().position(|each| *each == place);
        let path_bytes = || place.path.iter().map(|key| text_bytes(key)).sum::<usize>();
        let place_cost = if known.is_some() { 0 } else { 2 + path_bytes() };
        let is_countable = known.is_some() || self.fields.places.len() < FIELDS_PLACES_MAX;
        self.room = self.room.checked_sub(cost + place_cost).filter(|_| is_countable)?;
        Some(count(known.unwrap_or_else(|| {
            self.fields.places.push(place);
            self.fields.places.len() - 1
        })))
    }
}
