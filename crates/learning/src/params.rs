//! The parameters of a query for learning: a small canonical map, name by name. Large ones, and those not in canonical
//! form, are not read. Nothing here decides which lessons follow.

use hopcache_core::limits::{LEARNED_PARAMS_BYTES_MAX, LEARNED_PARAMS_MAX};
use hopcache_packstream::{Reader, Token, Writer};

/// The type of a value. Two values of different types are never the same: `1`, `1.0` and `"1"` are three.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub enum Kind {
    /// Null.
    Null,
    /// True or false.
    Bool,
    /// An integer.
    Int,
    /// A double.
    Float,
    /// Bytes.
    Bytes,
    /// Text.
    Text,
    /// A list of anything.
    List,
    /// A map.
    Map,
    /// A structure, such as a date or a point, or a UUID.
    Struct,
}

impl Kind {
    /// The type of the value at the front of these bytes.
    #[must_use]
    pub fn of(packed: &[u8]) -> Option<Self> {
        Some(match Reader::new(packed).token().ok()? {
            Token::Null => Self::Null,
            Token::Bool(_) => Self::Bool,
            Token::Int(_) => Self::Int,
            Token::Float(_) => Self::Float,
            Token::Bytes(_) => Self::Bytes,
            Token::Str(_) => Self::Text,
            Token::List(_) => Self::List,
            Token::Map(_) => Self::Map,
            Token::Struct { .. } | Token::Uuid(_) => Self::Struct,
        })
    }
}

/// Parameters, sorted by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Params<'a>(Vec<(&'a str, &'a [u8])>);

impl<'a> Params<'a> {
    /// Reads one canonical map. `None` if it is longer than [`LEARNED_PARAMS_BYTES_MAX`], has more than
    /// [`LEARNED_PARAMS_MAX`] names, or is not a map.
    pub(super) fn read(packed: &'a [u8]) -> Option<Self> {
        let mut reader = Reader::new(packed);
        let (true, Ok(Token::Map(pairs))) = (packed.len() <= LEARNED_PARAMS_BYTES_MAX, reader.token()) else {
            return None;
        };
        if pairs > LEARNED_PARAMS_MAX {
            return None;
        }
        let mut params: Vec<(&str, &[u8])> = Vec::with_capacity(pairs);
        for _ in 0..pairs {
            let name = reader.key().ok()?;
            if params.last().is_some_and(|(before, _)| *before >= name) {
                return None;
            }
            params.push((name, reader.skip().ok()?));
        }
        reader.is_empty().then_some(Self(params))
    }

    pub(super) fn get(&self, name: &str) -> Option<&'a [u8]> {
        self.0.iter().find(|(each, _)| *each == name).map(|(_, value)| *value)
    }

    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = (&'a str, &'a [u8])> {
        self.0.iter().copied()
    }
}

/// One map of pairs that are sorted by name.
pub(super) fn written<'a>(pairs: impl ExactSizeIterator<Item = (&'a str, &'a [u8])>) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.map(pairs.len());
    for (name, value) in pairs {
        writer.string(name);
        writer.raw(value);
    }
    writer.into_bytes()
}
