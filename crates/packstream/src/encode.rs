//! Values to bytes. The shortest form of every integer and length is always taken, so that equal
//! values have equal bytes.

use crate::Value;

/// Appends PackStream to a buffer, token by token.
#[derive(Debug, Default, Clone)]
pub struct Writer {
    bytes: Vec<u8>,
}

/// Marker bytes of one family of sized values.
struct Family {
    tiny: Option<u8>,
    sized: [Option<u8>; 3],
}

const STRING: Family = Family { tiny: Some(0x80), sized: [Some(0xD0), Some(0xD1), Some(0xD2)] };
const LIST: Family = Family { tiny: Some(0x90), sized: [Some(0xD4), Some(0xD5), Some(0xD6)] };
const MAP: Family = Family { tiny: Some(0xA0), sized: [Some(0xD8), Some(0xD9), Some(0xDA)] };
const BYTES: Family = Family { tiny: None, sized: [Some(0xCC), Some(0xCD), Some(0xCE)] };

impl Writer {
    /// An empty buffer.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// What was written.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Writes null.
    pub fn null(&mut self) {
        self.bytes.push(0xC0);
    }

    /// Writes a boolean.
    pub fn bool(&mut self, flag: bool) {
        self.bytes.push(if flag { 0xC3 } else { 0xC2 });
    }

    /// Writes an integer in its shortest form.
    pub fn int(&mut self, number: i64) {
        if let Ok(small) = i8::try_from(number) {
            if small < -16 {
                self.bytes.push(0xC8);
            }
            self.bytes.extend_from_slice(&small.to_be_bytes());
        } else if let Ok(short) = i16::try_from(number) {
            self.bytes.push(0xC9);
            self.bytes.extend_from_slice(&short.to_be_bytes());
        } else if let Ok(medium) = i32::try_from(number) {
            self.bytes.push(0xCA);
            self.bytes.extend_from_slice(&medium.to_be_bytes());
        } else {
            self.bytes.push(0xCB);
            self.bytes.extend_from_slice(&number.to_be_bytes());
        }
    }

    /// Writes a double, bit for bit.
    pub fn float(&mut self, number: f64) {
        self.bytes.push(0xC1);
        self.bytes.extend_from_slice(&number.to_be_bytes());
    }

    /// Writes raw bytes.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.size(&BYTES, bytes.len());
        self.bytes.extend_from_slice(bytes);
    }

    /// Writes text.
    pub fn string(&mut self, text: &str) {
        self.size(&STRING, text.len());
        self.bytes.extend_from_slice(text.as_bytes());
    }

    /// Writes a UUID, which only Bolt 6.1 and later have.
    pub fn uuid(&mut self, bytes: [u8; 16]) {
        self.bytes.push(0xE0);
        self.bytes.extend_from_slice(&bytes);
    }

    /// Opens a list; `len` values follow.
    pub fn list(&mut self, len: usize) {
        self.size(&LIST, len);
    }

    /// Opens a map; `len` pairs of string and value follow.
    pub fn map(&mut self, len: usize) {
        self.size(&MAP, len);
    }

    /// Opens a structure; `len` (at most 15) values follow.
    pub fn structure(&mut self, tag: u8, len: usize) {
        assert!(len < 16, "Bolt structures have at most 15 fields");
        self.bytes.push(0xB0 | u8::try_from(len).unwrap_or(0));
        self.bytes.push(tag);
    }

    /// Appends bytes that already are PackStream.
    pub fn raw(&mut self, packed: &[u8]) {
        self.bytes.extend_from_slice(packed);
    }

    /// Writes a whole value, maps in the order they have.
    pub fn value(&mut self, value: &Value) {
        self.tree(value, false);
    }

    fn size(&mut self, family: &Family, len: usize) {
        match (family.tiny, u8::try_from(len), u16::try_from(len)) {
            (Some(tiny), Ok(short), _) if short < 16 => self.bytes.push(tiny | short),
            (_, Ok(short), _) => {
                self.bytes.extend(family.sized[0]);
                self.bytes.push(short);
            }
            (_, _, Ok(medium)) => {
                self.bytes.extend(family.sized[1]);
                self.bytes.extend_from_slice(&medium.to_be_bytes());
            }
            _ => {
                let long = u32::try_from(len).unwrap_or(u32::MAX);
                assert!(long as usize == len, "PackStream sizes are 32 bits");
                self.bytes.extend(family.sized[2]);
                self.bytes.extend_from_slice(&long.to_be_bytes());
            }
        }
    }

    fn tree(&mut self, value: &Value, canonical: bool) {
        match value {
            Value::Null => self.null(),
            Value::Bool(flag) => self.bool(*flag),
            Value::Int(number) => self.int(*number),
            Value::Float(number) if canonical && number.is_nan() => self.float(f64::NAN.copysign(1.0)),
            Value::Float(number) => self.float(*number),
            Value::Bytes(bytes) => self.bytes(bytes),
            Value::String(text) => self.string(text),
            Value::Uuid(bytes) => self.uuid(*bytes),
            Value::List(items) => {
                self.list(items.len());
                items.iter().for_each(|item| self.tree(item, canonical));
            }
            Value::Map(pairs) => self.tree_map(pairs, canonical),
            Value::Struct { tag, fields } => {
                self.structure(*tag, fields.len());
                fields.iter().for_each(|field| self.tree(field, canonical));
            }
        }
    }

    fn tree_map(&mut self, pairs: &[(String, Value)], canonical: bool) {
        if !canonical {
            self.map(pairs.len());
            for (key, value) in pairs {
                self.string(key);
                self.tree(value, false);
            }
            return;
        }
        // A later pair of the same key replaces an earlier one, as it does in Neo4j's own JSON front.
        let sorted: std::collections::BTreeMap<&str, &Value> =
            pairs.iter().map(|(key, value)| (key.as_str(), value)).collect();
        self.map(sorted.len());
        for (key, value) in sorted {
            self.string(key);
            self.tree(value, true);
        }
    }
}

/// The bytes of `value`, maps in the order they have.
#[must_use]
pub fn encode(value: &Value) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.tree(value, false);
    writer.into_bytes()
}

/// The bytes of `value` in the one form that equal values share: maps sorted by key and without
/// repeated keys, one NaN. Injective on everything else: `1`, `1.0` and `"1"` differ, and so do
/// `0.0` and `-0.0` (Cypher can tell them apart).
#[must_use]
pub fn encode_canonical(value: &Value) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.tree(value, true);
    writer.into_bytes()
}
