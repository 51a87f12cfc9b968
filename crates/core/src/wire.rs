//! The form of messages between nodes: serde and postcard, with one version for all of them.
//!
//! Decides the version, and that reading is strict: bytes are one whole value, and each list has a bound that is checked
//! before it takes memory. It never decides what a message means, and never makes it secret or authentic.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The version of everything that nodes send each other. A node refuses a node of another version, and both serve by the store
/// (F10). It is raised when a byte changes its meaning. Until the first release it stays 1.
pub const WIRE_VERSION: u8 = 1;

/// Why bytes are not the wanted value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadForm {
    /// They are cut, or a part of them is not of its form or over its bound.
    #[error("{0}")]
    Part(#[from] postcard::Error),
    /// Bytes follow the value.
    #[error("bytes follow its end")]
    Overlong,
}

/// The bytes of a value.
#[must_use]
pub fn to_bytes<T: Serialize + ?Sized>(value: &T) -> Vec<u8> {
    append(Vec::new(), value)
}

/// `out` with the bytes of a value behind it.
#[must_use]
pub fn append<T: Serialize + ?Sized>(out: Vec<u8>, value: &T) -> Vec<u8> {
    // Only a value of unknown length fails, and no message has one. The receiver would refuse no bytes as cut.
    postcard::to_extend(value, out).unwrap_or_else(|error| {
        debug_assert!(false, "a message cannot be written: {error}");
        Vec::new()
    })
}

/// Reads a value that takes all of these bytes.
///
/// # Errors
/// [`BadForm`].
pub fn from_bytes<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, BadForm> {
    let (value, rest) = postcard::take_from_bytes(bytes)?;
    if rest.is_empty() { Ok(value) } else { Err(BadForm::Overlong) }
}

/// Reads a value off the front of these bytes.
///
/// # Errors
/// [`BadForm`]; the bytes stay as they were.
pub fn take<'a, T: Deserialize<'a>>(bytes: &mut &'a [u8]) -> Result<T, BadForm> {
    let (value, rest) = postcard::take_from_bytes(bytes)?;
    *bytes = rest;
    Ok(value)
}

/// For `#[serde(with)]`: a number in eight bytes, whatever its value. A random one is longer in any other form.
pub use postcard::fixint::le as fixed;

/// Bytes that are copied as one piece, and read as a slice of their message. serde would take a plain slice byte by byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece<'a>(pub &'a [u8]);

impl Serialize for Piece<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_bytes(self.0)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Piece<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Deserialize::deserialize(from).map(Self)
    }
}

/// For `#[serde(with)]`: bytes that their value owns, as one piece.
pub mod piece {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::Piece;

    /// Writes them.
    ///
    /// # Errors
    /// The serializer's.
    pub fn serialize<S: Serializer>(bytes: &impl AsRef<[u8]>, to: S) -> Result<S::Ok, S::Error> {
        Piece(bytes.as_ref()).serialize(to)
    }

    /// Copies them out of the message.
    ///
    /// # Errors
    /// The deserializer's.
    pub fn deserialize<'de, D: Deserializer<'de>, T: From<Vec<u8>>>(from: D) -> Result<T, D::Error> {
        Piece::deserialize(from).map(|piece| piece.0.to_vec().into())
    }
}

/// For `#[serde(deserialize_with)]`: a list of at most `MAX` items.
///
/// # Errors
/// The list is longer, or an item is not of its form.
pub fn at_most<'de, D, T, const MAX: usize>(from: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    from.deserialize_seq(AtMost::<T, MAX>(PhantomData))
}

struct AtMost<T, const MAX: usize>(PhantomData<T>);

impl<'de, T: Deserialize<'de>, const MAX: usize> Visitor<'de> for AtMost<T, MAX> {
    type Value = Vec<T>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "at most {MAX} items")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Vec<T>, A::Error> {
        // None: there are fewer bytes than items, and reading them ends with an error.
        let len = from.size_hint().unwrap_or(0);
        if len > MAX {
            return Err(A::Error::invalid_length(len, &self));
        }
        let mut items = Vec::with_capacity(len);
        while let Some(item) = from.next_element()? {
            if items.len() >= MAX {
                return Err(A::Error::invalid_length(MAX + 1, &self));
            }
            items.push(item);
        }
        Ok(items)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Sample<'a> {
        #[serde(borrow)]
        body: Piece<'a>,
        #[serde(with = "piece")]
        kept: Vec<u8>,
        #[serde(deserialize_with = "at_most::<_, _, 3>")]
        few: Vec<u16>,
    }

    /// I9, I13: what is cut, overlong or over its bound is refused, and the body is a slice of its message.
    #[test]
    fn reading_is_strict() {
        let sample = Sample { body: Piece(b"body"), kept: vec![7; 3], few: vec![1, 2, 3] };
        let bytes = to_bytes(&sample);
        assert_eq!(bytes, b"\x04body\x03\x07\x07\x07\x03\x01\x02\x03");
        let read: Sample<'_> = from_bytes(&bytes).unwrap();
        assert_eq!(read, sample);
        assert!(bytes.as_ptr_range().contains(&read.body.0.as_ptr()));
        for len in 0..bytes.len() {
            assert!(from_bytes::<Sample<'_>>(&bytes[..len]).is_err(), "{len}");
        }
        let longer = append(bytes.clone(), &1_u8);
        assert_eq!(from_bytes::<Sample<'_>>(&longer), Err(BadForm::Overlong));
        let mut rest = &longer[..];
        assert_eq!((take::<Sample<'_>>(&mut rest), rest), (Ok(sample), &[1][..]));
        let many = Sample { body: Piece(b""), kept: Vec::new(), few: vec![1; 4] };
        assert!(from_bytes::<Sample<'_>>(&to_bytes(&many)).is_err());
        // A length that no memory could hold.
        assert!(from_bytes::<Sample<'_>>(b"\0\0\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x01").is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_value_or_none(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            if let Ok(read) = from_bytes::<Sample<'_>>(&bytes) {
                prop_assert!(read.few.len() <= 3);
                let again = to_bytes(&read);
                prop_assert_eq!(from_bytes::<Sample<'_>>(&again), Ok(read));
            }
        }
    }
}
