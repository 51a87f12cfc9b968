//! Vectors, which came with Bolt 6.0: a structure of the type of the coordinates and of all coordinates as one byte
//! string. Nothing here knows JSON or Cypher's other types.

use crate::{DecodeError, Reader, Token};

/// The type of a vector's coordinates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CoordinateType {
    /// 8-bit integers.
    Int8,
    /// 16-bit integers.
    Int16,
    /// 32-bit integers.
    Int32,
    /// 64-bit integers.
    Int64,
    /// 32-bit floats.
    Float32,
    /// 64-bit floats.
    Float64,
}

impl CoordinateType {
    /// Every type.
    pub const ALL: [Self; 6] =
        [Self::Int8, Self::Int16, Self::Int32, Self::Int64, Self::Float32, Self::Float64];

    /// The byte that names it: the marker of such a number in PackStream; a 32-bit float has none, and takes 0xC6.
    #[must_use]
    pub const fn marker(self) -> u8 {
        match self {
            Self::Int8 => 0xC8,
            Self::Int16 => 0xC9,
            Self::Int32 => 0xCA,
            Self::Int64 => 0xCB,
            Self::Float32 => 0xC6,
            Self::Float64 => 0xC1,
        }
    }

    /// The bytes of one coordinate.
    #[must_use]
    pub const fn width(self) -> usize {
        match self {
            Self::Int8 => 1,
            Self::Int16 => 2,
            Self::Int32 | Self::Float32 => 4,
            Self::Int64 | Self::Float64 => 8,
        }
    }

    /// The name of the type in Cypher.
    #[must_use]
    pub const fn cypher_name(self) -> &'static str {
        match self {
            Self::Int8 => "INTEGER8",
            Self::Int16 => "INTEGER16",
            Self::Int32 => "INTEGER32",
            Self::Int64 => "INTEGER64",
            Self::Float32 => "FLOAT32",
            Self::Float64 => "FLOAT64",
        }
    }
}

/// A vector, borrowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Vector<'a> {
    /// The type of its coordinates.
    pub of: CoordinateType,
    /// The coordinates, big-endian, one behind the other.
    pub bytes: &'a [u8],
}

impl<'a> Vector<'a> {
    /// Reads the two fields behind the head of a vector. `None` if they are not those of a vector.
    ///
    /// # Errors
    /// As [`Reader::token`].
    pub fn read(reader: &mut Reader<'a>) -> Result<Option<Self>, DecodeError> {
        let (Token::Bytes(marker), Token::Bytes(bytes)) = (reader.token()?, reader.token()?) else {
            return Ok(None);
        };
        let of = CoordinateType::ALL.into_iter().find(|of| *marker == [of.marker()]);
        Ok(of.filter(|of| bytes.len().is_multiple_of(of.width())).map(|of| Self { of, bytes }))
    }

    /// How many coordinates it has.
    #[must_use]
    pub const fn dimensions(&self) -> usize {
        self.bytes.len() / self.of.width()
    }
}
