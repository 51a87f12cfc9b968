//! Bytes to values. Every length is checked against the bytes that are really there before
//! anything is allocated or skipped.

use crate::{DEPTH_MAX, PASSED_DEPTH_MAX, Value};

/// Levels that are passed over by recursion, which is faster. Real values have fewer.
const RECURSED_DEPTH_MAX: usize = 16;

/// Why bytes are not PackStream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The bytes end inside a value.
    #[error("PackStream ends inside a value")]
    Truncated,
    /// A marker byte that the format does not define.
    #[error("unknown PackStream marker 0x{0:02X}")]
    Marker(u8),
    /// Text that is not UTF-8.
    #[error("a PackStream string is not UTF-8")]
    Utf8,
    /// A map key that is not a string.
    #[error("a PackStream map key is not a string")]
    Key,
    /// Nested deeper than [`DEPTH_MAX`], or, of values that are passed over, [`PASSED_DEPTH_MAX`].
    #[error("PackStream nests too deep")]
    Depth,
    /// Bytes left over behind a whole value.
    #[error("{0} bytes behind the end of a PackStream value")]
    Trailing(usize),
}

/// One token. `List`, `Map` and `Struct` announce how many values (map: pairs) follow.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Token<'a> {
    /// Null.
    Null,
    /// Boolean.
    Bool(bool),
    /// Integer.
    Int(i64),
    /// Double.
    Float(f64),
    /// Raw bytes.
    Bytes(&'a [u8]),
    /// Text.
    Str(&'a str),
    /// A list of this many values.
    List(usize),
    /// A map of this many pairs.
    Map(usize),
    /// A structure.
    Struct {
        /// Signature.
        tag: u8,
        /// Number of fields.
        len: usize,
    },
    /// A UUID (from Bolt 6.1 on).
    Uuid([u8; 16]),
}

/// Pulls tokens off a slice; borrows text and bytes from it.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

/// A list, map or structure whose values are passed over.
struct Open {
    /// Values that were not passed over yet.
    left: usize,
    /// Whether there is a key before each of them.
    has_keys: bool,
}

impl<'a> Reader<'a> {
    /// Reads from the start of `bytes`.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// What has not been read yet.
    #[must_use]
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Whether everything has been read.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next token.
    ///
    /// # Errors
    /// [`DecodeError`] when the bytes are cut, not UTF-8, or not PackStream. A list, map or structure that announces
    /// more values than bytes are left counts as cut.
    pub fn token(&mut self) -> Result<Token<'a>, DecodeError> {
        let marker = self.take::<1>()?[0];
        Ok(match marker {
            0x00..=0x7F => Token::Int(i64::from(marker)),
            0xF0..=0xFF => Token::Int(i64::from(i8::from_be_bytes([marker]))),
            0x80..=0x8F => self.text(usize::from(marker & 0x0F))?,
            0x90..=0x9F => self.list(usize::from(marker & 0x0F))?,
            0xA0..=0xAF => self.map(usize::from(marker & 0x0F))?,
            0xB0..=0xBF => self.structure(usize::from(marker & 0x0F))?,
            0xC0 => Token::Null,
            0xC1 => Token::Float(f64::from_be_bytes(self.take()?)),
            0xC2 => Token::Bool(false),
            0xC3 => Token::Bool(true),
            0xC8 => Token::Int(i64::from(i8::from_be_bytes(self.take()?))),
            0xC9 => Token::Int(i64::from(i16::from_be_bytes(self.take()?))),
            0xCA => Token::Int(i64::from(i32::from_be_bytes(self.take()?))),
            0xCB => Token::Int(i64::from_be_bytes(self.take()?)),
            0xCC..=0xCE => {
                let len = self.size(marker - 0xCC)?;
                Token::Bytes(self.slice(len)?)
            }
            0xD0..=0xD2 => {
                let len = self.size(marker - 0xD0)?;
                self.text(len)?
            }
            0xD4..=0xD6 => {
                let len = self.size(marker - 0xD4)?;
                self.list(len)?
            }
            0xD8..=0xDA => {
                let len = self.size(marker - 0xD8)?;
                self.map(len)?
            }
            0xE0 => Token::Uuid(self.take()?),
            other => return Err(DecodeError::Marker(other)),
        })
    }

    /// The next token, which has to be text (a map key).
    ///
    /// # Errors
    /// [`DecodeError::Key`] when it is something else.
    pub fn key(&mut self) -> Result<&'a str, DecodeError> {
        match self.token()? {
            Token::Str(text) => Ok(text),
            _ => Err(DecodeError::Key),
        }
    }

    /// The next whole value as a tree.
    ///
    /// # Errors
    /// As [`Reader::token`], and [`DecodeError::Depth`].
    pub fn value(&mut self) -> Result<Value, DecodeError> {
        self.tree(0)
    }

    /// Passes over the next whole value and returns its bytes.
    ///
    /// # Errors
    /// As [`Reader::value`].
    pub fn skip(&mut self) -> Result<&'a [u8], DecodeError> {
        let start = self.rest;
        self.skip_nested(0)?;
        Ok(&start[..start.len() - self.rest.len()])
    }

    fn skip_nested(&mut self, depth: usize) -> Result<(), DecodeError> {
        let (values, pairs) = match self.token()? {
            Token::List(len) | Token::Struct { len, .. } => (len, 0),
            Token::Map(len) => (0, len),
            _ => return Ok(()),
        };
        if depth >= RECURSED_DEPTH_MAX {
            return self.skip_deep(Open { left: values + pairs, has_keys: pairs > 0 });
        }
        for _ in 0..values {
            self.skip_nested(depth + 1)?;
        }
        for _ in 0..pairs {
            self.key()?;
            self.skip_nested(depth + 1)?;
        }
        Ok(())
    }

    /// Passes over what is left of a value that nests deep, without recursion.
    fn skip_deep(&mut self, first: Open) -> Result<(), DecodeError> {
        let mut open = vec![first];
        while let Some(innermost) = open.last_mut() {
            let Some(left) = innermost.left.checked_sub(1) else {
                open.pop();
                continue;
            };
            innermost.left = left;
            if innermost.has_keys {
                self.key()?;
            }
            let (left, has_keys) = match self.token()? {
                Token::List(len) | Token::Struct { len, .. } => (len, false),
                Token::Map(len) => (len, true),
                _ => continue,
            };
            if open.len() >= PASSED_DEPTH_MAX {
                return Err(DecodeError::Depth);
            }
            open.push(Open { left, has_keys });
        }
        Ok(())
    }

    fn tree(&mut self, depth: usize) -> Result<Value, DecodeError> {
        let token = self.token()?;
        if depth >= DEPTH_MAX && matches!(token, Token::List(_) | Token::Map(_) | Token::Struct { .. }) {
            return Err(DecodeError::Depth);
        }
        Ok(match token {
            Token::Null => Value::Null,
            Token::Bool(flag) => Value::Bool(flag),
            Token::Int(number) => Value::Int(number),
            Token::Float(number) => Value::Float(number),
            Token::Bytes(bytes) => Value::Bytes(bytes.to_vec()),
            Token::Str(text) => Value::String(text.to_owned()),
            Token::Uuid(bytes) => Value::Uuid(bytes),
            Token::List(len) => Value::List(self.trees(len, depth)?),
            Token::Struct { tag, len } => Value::Struct { tag, fields: self.trees(len, depth)? },
            Token::Map(len) => {
                let mut pairs = Vec::new();
                for _ in 0..len {
                    pairs.push((self.key()?.to_owned(), self.tree(depth + 1)?));
                }
                Value::Map(pairs)
            }
        })
    }

    fn trees(&mut self, len: usize, depth: usize) -> Result<Vec<Value>, DecodeError> {
        // Not `with_capacity(len)`: a value is 24 times the one byte that a claimed item needs.
        let mut values = Vec::new();
        for _ in 0..len {
            values.push(self.tree(depth + 1)?);
        }
        Ok(values)
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let (head, tail) = self.rest.split_first_chunk::<N>().ok_or(DecodeError::Truncated)?;
        self.rest = tail;
        Ok(*head)
    }

    fn slice(&mut self, len: usize) -> Result<&'a [u8], DecodeError> {
        let (head, tail) = self.rest.split_at_checked(len).ok_or(DecodeError::Truncated)?;
        self.rest = tail;
        Ok(head)
    }

    fn size(&mut self, width: u8) -> Result<usize, DecodeError> {
        Ok(match width {
            0 => usize::from(self.take::<1>()?[0]),
            1 => usize::from(u16::from_be_bytes(self.take()?)),
            _ => u32::from_be_bytes(self.take()?) as usize,
        })
    }

    fn text(&mut self, len: usize) -> Result<Token<'a>, DecodeError> {
        std::str::from_utf8(self.slice(len)?).map(Token::Str).map_err(|_| DecodeError::Utf8)
    }

    fn list(&mut self, len: usize) -> Result<Token<'a>, DecodeError> {
        self.at_least(len)?;
        Ok(Token::List(len))
    }

    fn map(&mut self, len: usize) -> Result<Token<'a>, DecodeError> {
        self.at_least(len.saturating_mul(2))?;
        Ok(Token::Map(len))
    }

    fn structure(&mut self, len: usize) -> Result<Token<'a>, DecodeError> {
        let tag = self.take::<1>()?[0];
        self.at_least(len)?;
        Ok(Token::Struct { tag, len })
    }

    /// Every value takes at least one byte, so a larger claim is a cut or hostile message.
    fn at_least(&self, bytes: usize) -> Result<(), DecodeError> {
        if self.rest.len() < bytes { Err(DecodeError::Truncated) } else { Ok(()) }
    }
}

/// The one value that `bytes` hold.
///
/// # Errors
/// As [`Reader::value`], and [`DecodeError::Trailing`] when something stands behind it.
pub fn decode(bytes: &[u8]) -> Result<Value, DecodeError> {
    let mut reader = Reader::new(bytes);
    let value = reader.value()?;
    match reader.rest().len() {
        0 => Ok(value),
        left => Err(DecodeError::Trailing(left)),
    }
}
