//! Parameter values, plain and typed, as PackStream values.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use hopcache_packstream::{DEPTH_MAX, Value};

use super::lex::{Lexer, Token};
use super::{Encoding, Malformed, duration, number, point, temporal, vector};

/// Java's decoder: padding may be missing, spare bits are dropped.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// A member's name and the colon behind it.
pub(super) fn key(lexer: &mut Lexer<'_>) -> Result<String, Malformed> {
    let Token::Text(name) = lexer.next()? else { return Err(Malformed::Type) };
    if lexer.next()? == Token::Colon { Ok(name) } else { Err(Malformed::Type) }
}

/// Reads values off a lexer.
pub(super) struct Values<'l, 'a> {
    lexer: &'l mut Lexer<'a>,
    encoding: Encoding,
    big_integer: bool,
}

impl<'l, 'a> Values<'l, 'a> {
    pub(super) fn new(lexer: &'l mut Lexer<'a>, encoding: Encoding) -> Self {
        Self { lexer, encoding, big_integer: false }
    }

    /// Whether a plain integer beyond 64 bits was read. It is reported after everything else, because the server too
    /// notices it only when the statement is about to run.
    pub(super) fn saw_big_integer(&self) -> bool {
        self.big_integer
    }

    /// The next value, at nesting `depth`.
    pub(super) fn value(&mut self, depth: usize) -> Result<Value, Malformed> {
        let token = self.lexer.next()?;
        match self.encoding {
            Encoding::Plain => self.plain(token, depth),
            _ => self.typed(&token, depth),
        }
    }

    fn plain(&mut self, token: Token<'_>, depth: usize) -> Result<Value, Malformed> {
        Ok(match token {
            Token::Null => Value::Null,
            Token::Bool(flag) => Value::Bool(flag),
            Token::Text(text) => Value::String(text),
            Token::Number(text) if number::is_integer(text) => {
                let read = number::integer(text);
                self.big_integer |= read.is_err();
                Value::Int(read.unwrap_or(0))
            }
            Token::Number(text) => Value::Float(number::float(text)?),
            Token::ListStart => Value::List(self.items(depth)?),
            Token::MapStart => Value::Map(self.members(depth)?),
            _ => return Err(Malformed::Type),
        })
    }

    /// The rest of a list whose start was read.
    fn items(&mut self, depth: usize) -> Result<Vec<Value>, Malformed> {
        if depth >= DEPTH_MAX {
            return Err(Malformed::Depth);
        }
        let mut items = Vec::new();
        if self.lexer.peek() == Some(b']') {
            self.lexer.next()?;
            return Ok(items);
        }
        loop {
            items.push(self.value(depth + 1)?);
            match self.lexer.next()? {
                Token::Comma => {}
                Token::ListEnd => return Ok(items),
                _ => return Err(Malformed::Type),
            }
        }
    }

    /// The rest of a map whose start was read.
    fn members(&mut self, depth: usize) -> Result<Vec<(String, Value)>, Malformed> {
        if depth >= DEPTH_MAX {
            return Err(Malformed::Depth);
        }
        let mut members = Vec::new();
        if self.lexer.peek() == Some(b'}') {
            self.lexer.next()?;
            return Ok(members);
        }
        loop {
            members.push((key(self.lexer)?, self.value(depth + 1)?));
            match self.lexer.next()? {
                Token::Comma => {}
                Token::MapEnd => return Ok(members),
                _ => return Err(Malformed::Type),
            }
        }
    }

    /// `{"$type":…,"_value":…}`, in this order. The server passes over later members.
    fn typed(&mut self, start: &Token<'_>, depth: usize) -> Result<Value, Malformed> {
        match start {
            Token::Null => return Ok(Value::Null),
            Token::MapStart => {}
            _ => return Err(Malformed::Type),
        }
        if key(self.lexer)? != "$type" {
            return Err(Malformed::Range);
        }
        let Token::Text(name) = self.lexer.next()? else { return Err(Malformed::Type) };
        if self.lexer.next()? != Token::Comma || key(self.lexer)? != "_value" {
            return Err(Malformed::Range);
        }
        let value = self.of_type(&name, depth)?;
        loop {
            match self.lexer.next()? {
                Token::MapEnd => return Ok(value),
                Token::Comma => {}
                _ => return Err(Malformed::Type),
            }
            key(self.lexer)?;
            // The value is not used. It only has to be JSON.
            let token = self.lexer.next()?;
            Values::new(self.lexer, Encoding::Plain).plain(token, depth + 1)?;
        }
    }

    fn of_type(&mut self, name: &str, depth: usize) -> Result<Value, Malformed> {
        let token = self.lexer.next()?;
        match (name, token) {
            ("Null" | "List" | "Map" | "String", Token::Null) => Ok(Value::Null),
            ("Boolean", Token::Bool(flag)) => Ok(Value::Bool(flag)),
            ("Integer", Token::Number(text)) => number::java_long(text).map(Value::Int),
            ("Integer", Token::Text(text)) => number::java_long(&text).map(Value::Int),
            ("Float", Token::Number(text)) => number::float(text).map(Value::Float),
            ("Float", Token::Text(text)) => number::java_double(&text).map(Value::Float),
            ("String", Token::Text(text)) => Ok(Value::String(text)),
            ("String", Token::Number(text)) => Ok(Value::String(text.to_owned())),
            ("String", Token::Bool(flag)) => Ok(Value::String(flag.to_string())),
            ("List", Token::ListStart) => self.items(depth).map(Value::List),
            ("Map", Token::MapStart) => self.members(depth).map(Value::Map),
            ("Base64", Token::Text(text)) => {
                BASE64.decode(text).map(Value::Bytes).map_err(|_| Malformed::Range)
            }
            ("Date", Token::Text(text)) => temporal::date(&text),
            ("Time", Token::Text(text)) => temporal::time(&text),
            ("LocalTime", Token::Text(text)) => temporal::local_time(&text),
            ("LocalDateTime", Token::Text(text)) => temporal::local_date_time(&text),
            ("OffsetDateTime", Token::Text(text)) => temporal::offset_date_time(&text),
            ("ZonedDateTime", Token::Text(text)) => temporal::zoned_date_time(&text),
            ("Duration", Token::Text(text)) => duration::duration(&text),
            ("Point", Token::Text(text)) => point::point(&text),
            ("Vector", Token::MapStart) if self.encoding.has_vectors() => vector::vector(self.lexer),
            ("UUID", Token::Text(text)) if self.encoding.has_uuids() => vector::uuid(&text),
            _ => Err(Malformed::Type),
        }
    }
}
