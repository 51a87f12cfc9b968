//! Values as older versions have them, made from the bytes of Bolt 6.1, in which results are kept.
//!
//! | version | what it has instead |
//! |---|---|
//! | 6.0 | a UUID is of an unsupported type (`3F`) |
//! | 5.8 and older | a map in the place of a vector, a UUID, or an unsupported type; Neo4j says so at the end of the result |
//! | 4.4 and older | nodes, relationships and paths without element ids, and date-times in local seconds unless the client has agreed on UTC (`patch_bolt: ["utc"]`) |
//!
//! Bytes in, bytes out: no value becomes a tree. Everything else keeps its bytes. (Bolt documentation, "Structure
//! semantics", "Legacy DateTime"; for Bolt 6 as recorded from Neo4j 2026.09; Bolt 5.0 itself has the values of 5.8.)

use hopcache_packstream::{DEPTH_MAX, DecodeError, Reader, Token, Vector, Writer, tag};

use super::handshake::Version;

/// Legacy date-time with offset: local seconds, nanoseconds, offset in seconds.
pub const LEGACY_DATE_TIME: u8 = 0x46;
/// Legacy date-time with zone name: local seconds, nanoseconds, zone id.
pub const LEGACY_DATE_TIME_ZONE: u8 = 0x66;

/// The marker byte of a UUID.
const UUID_MARKER: u8 = 0xE0;
/// The name of a UUID's type, and the version that has it.
const UUID: (&str, Version) = ("UUID", Version::new(6, 1));

/// The offset in seconds of a named zone at a moment in UTC seconds.
pub type OffsetOf = fn(&str, i64) -> Option<i32>;

/// How a client wants its values.
#[derive(Debug, Clone, Copy)]
pub struct OldForm {
    /// The version that it speaks.
    pub version: Version,
    /// Below 5.0: whether date-times stay in UTC.
    pub has_utc: bool,
    /// The rules of time zones.
    pub offset_of: OffsetOf,
}

/// Why a value has no old form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoOldForm {
    /// The bytes are not PackStream.
    #[error("{0}")]
    PackStream(#[from] DecodeError),
    /// A structure without the fields of Bolt 5.
    #[error("structure 0x{0:02X} does not have the fields of Bolt 5")]
    Structure(u8),
    /// A time zone without rules here, or a moment outside of all of them.
    #[error("the time zone {0:?} is not known here")]
    Zone(String),
}

/// Appends the old form of the one value that `bytes` begin with. Returns the name of the first type for which a map
/// stands, if there is one: Neo4j names only that type to the client.
///
/// # Errors
/// [`NoOldForm`]; then `out` has a part of the value.
pub fn rewrite(bytes: &[u8], form: OldForm, out: &mut Vec<u8>) -> Result<Option<String>, NoOldForm> {
    let mut rewriter = Rewriter { reader: Reader::new(bytes), form, out, replaced: None };
    rewriter.value(0)?;
    Ok(rewriter.replaced)
}

/// Whether these bytes may hold a vector, a UUID or an unsupported type. They are not read as PackStream: text that looks
/// like one counts too, and nothing that is one is missed.
#[must_use]
pub fn may_have_new_values(bytes: &[u8]) -> bool {
    let begins = |pair: &[u8]| pair[0] & 0xF0 == 0xB0 && matches!(pair[1], tag::VECTOR | tag::UNSUPPORTED);
    bytes.contains(&UUID_MARKER) || bytes.windows(2).any(begins)
}

/// Whether these bytes, values one behind the other, hold a vector, a UUID or an unsupported type.
#[must_use]
pub fn has_new_values(bytes: &[u8]) -> bool {
    let is_new = |token: &Token<'_>| {
        matches!(token, Token::Uuid(_) | Token::Struct { tag: tag::VECTOR | tag::UNSUPPORTED, .. })
    };
    may_have_new_values(bytes) && has_token(bytes, is_new)
}

/// Whether one of the tokens is such a one. Every token stands for itself: where it is nested does not matter. Bytes that are not
/// PackStream have none.
fn has_token(bytes: &[u8], is_it: impl Fn(&Token<'_>) -> bool) -> bool {
    let mut reader = Reader::new(bytes);
    while !reader.is_empty() {
        match reader.token() {
            Ok(token) if is_it(&token) => return true,
            Ok(_) => {}
            Err(_) => return false,
        }
    }
    false
}

/// Whether a client has sent a parameter in a form that its version does not have, or, below 5.0, that only its version
/// has: then only Neo4j can say what it is. Bytes that are not PackStream have none.
#[must_use]
pub fn has_other_values(bytes: &[u8], version: Version, has_utc: bool) -> bool {
    let is_old = version.major < 5;
    if !is_old && !may_have_new_values(bytes) {
        return false;
    }
    let is_other = |token: &Token<'_>| match token {
        Token::Struct { tag: LEGACY_DATE_TIME | LEGACY_DATE_TIME_ZONE, .. } => is_old,
        Token::Struct { tag: tag::DATE_TIME | tag::DATE_TIME_ZONE, .. } => is_old && !has_utc,
        Token::Struct { tag: tag::VECTOR, .. } => !version.has_vectors(),
        // No version takes it as a parameter.
        Token::Struct { tag: tag::UNSUPPORTED, .. } => true,
        Token::Uuid(_) => !version.has_uuids(),
        _ => false,
    };
    has_token(bytes, is_other)
}

struct Rewriter<'a, 'o> {
    reader: Reader<'a>,
    form: OldForm,
    out: &'o mut Vec<u8>,
    /// The first type for which a map stands.
    replaced: Option<String>,
}

impl Rewriter<'_, '_> {
    fn value(&mut self, depth: usize) -> Result<(), NoOldForm> {
        let start = self.reader.rest();
        let token = self.reader.token()?;
        if depth >= DEPTH_MAX && matches!(token, Token::List(_) | Token::Map(_) | Token::Struct { .. }) {
            return Err(DecodeError::Depth.into());
        }
        if let Token::Struct { tag, len } = token {
            return self.structure(start, (tag, len), depth);
        }
        if let Token::Uuid(_) = token
            && !self.form.version.has_uuids()
        {
            self.uuid();
            return Ok(());
        }
        self.out.extend_from_slice(&start[..start.len() - self.reader.rest().len()]);
        match token {
            Token::List(len) => self.values(len, depth),
            Token::Map(len) => {
                for _ in 0..len {
                    let start = self.reader.rest();
                    self.reader.key()?;
                    self.out.extend_from_slice(&start[..start.len() - self.reader.rest().len()]);
                    self.value(depth + 1)?;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn values(&mut self, len: usize, depth: usize) -> Result<(), NoOldForm> {
        for _ in 0..len {
            self.value(depth + 1)?;
        }
        Ok(())
    }

    fn structure(&mut self, start: &[u8], (found, len): (u8, usize), depth: usize) -> Result<(), NoOldForm> {
        let is_old = self.form.version.major < 5;
        // Bolt 5 has added its fields at the end of each.
        let (new_len, old_len) = match found {
            tag::NODE if is_old => (4, 3),
            tag::RELATIONSHIP if is_old => (8, 5),
            tag::UNBOUND_RELATIONSHIP if is_old => (4, 3),
            tag::DATE_TIME | tag::DATE_TIME_ZONE if is_old && !self.form.has_utc => {
                return self.date_time(found, len);
            }
            tag::VECTOR | tag::UNSUPPORTED if !self.form.version.has_vectors() => {
                return self.new_type(found, len);
            }
            _ => {
                self.out.extend_from_slice(&start[..start.len() - self.reader.rest().len()]);
                return self.values(len, depth);
            }
        };
        if len != new_len {
            return Err(NoOldForm::Structure(found));
        }
        let mut writer = Writer::new();
        writer.structure(found, old_len);
        self.out.extend_from_slice(&writer.into_bytes());
        self.values(old_len, depth)?;
        for _ in old_len..new_len {
            self.reader.skip()?;
        }
        Ok(())
    }

    /// A UUID, for a client that has none.
    fn uuid(&mut self) {
        let (name, Version { major, minor }) = UUID;
        if !self.form.version.has_vectors() {
            return self.placeholder(name, name);
        }
        let mut writer = Writer::new();
        writer.structure(tag::UNSUPPORTED, 4);
        writer.string(name);
        writer.int(i64::from(major));
        writer.int(i64::from(minor));
        writer.map(0);
        self.out.extend_from_slice(&writer.into_bytes());
    }

    /// A vector, or a type that even Bolt 6.1 does not have, for a client of Bolt 5.
    fn new_type(&mut self, found: u8, len: usize) -> Result<(), NoOldForm> {
        let wrong = || NoOldForm::Structure(found);
        if found == tag::VECTOR {
            let vector = Vector::read(&mut self.reader)?.filter(|_| len == 2).ok_or_else(wrong)?;
            let full = format!("VECTOR({}, {})", vector.dimensions(), vector.of.cypher_name());
            self.placeholder("VECTOR", &full);
            return Ok(());
        }
        let Token::Str(name) = self.reader.token()? else { return Err(wrong()) };
        if len != 4 {
            return Err(wrong());
        }
        for _ in 1..len {
            self.reader.skip()?;
        }
        self.placeholder(name, name);
        Ok(())
    }

    /// The map that Neo4j sends in the place of a value.
    fn placeholder(&mut self, kind: &str, full: &str) {
        let mut writer = Writer::new();
        writer.map(2);
        for (name, text) in [("reason", "UNKNOWN_TYPE"), ("originalType", full)] {
            writer.string(name);
            writer.string(text);
        }
        self.out.extend_from_slice(&writer.into_bytes());
        self.replaced.get_or_insert_with(|| kind.to_owned());
    }

    /// Local seconds in place of UTC seconds. Nanoseconds, and offset or zone, stay as they are.
    fn date_time(&mut self, found: u8, len: usize) -> Result<(), NoOldForm> {
        let wrong = || NoOldForm::Structure(found);
        let Token::Int(utc_s) = self.reader.token()? else { return Err(wrong()) };
        let kept = self.reader.rest();
        let nanoseconds = self.reader.token()?;
        let place = self.reader.token()?;
        let kept = &kept[..kept.len() - self.reader.rest().len()];
        let (old, offset_s) = match (nanoseconds, place) {
            (Token::Int(_), Token::Int(offset_s)) if found == tag::DATE_TIME => (LEGACY_DATE_TIME, offset_s),
            (Token::Int(_), Token::Str(zone)) if found == tag::DATE_TIME_ZONE => {
                let offset_s = (self.form.offset_of)(zone, utc_s);
                let offset_s = offset_s.ok_or_else(|| NoOldForm::Zone(zone.to_owned()))?;
                (LEGACY_DATE_TIME_ZONE, i64::from(offset_s))
            }
            _ => return Err(wrong()),
        };
        let local_s = utc_s.checked_add(offset_s).filter(|_| len == 3).ok_or_else(wrong)?;
        let mut writer = Writer::new();
        writer.structure(old, len);
        writer.int(local_s);
        writer.raw(kept);
        self.out.extend_from_slice(&writer.into_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests;
