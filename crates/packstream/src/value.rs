//! The tree form of a value, for parameters and small metadata. Results are walked with
//! [`Reader`](crate::Reader) instead and never become a tree.

/// One PackStream value.
///
/// A map keeps the order in which it was written, since that order is what a server sent; two maps
/// that differ only in order are different here and equal under
/// [`encode_canonical`](crate::encode_canonical).
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Absence of a value.
    Null,
    /// True or false.
    Bool(bool),
    /// 64-bit signed integer.
    Int(i64),
    /// IEEE 754 double; every bit pattern is a value.
    Float(f64),
    /// Raw bytes.
    Bytes(Vec<u8>),
    /// UTF-8 text.
    String(String),
    /// A UUID, which only Bolt 6.1 and later have.
    Uuid([u8; 16]),
    /// Values in order.
    List(Vec<Value>),
    /// Keys and values in the order written.
    Map(Vec<(String, Value)>),
    /// A structure: its signature ([`crate::tag`]) and fields.
    Struct {
        /// Signature byte.
        tag: u8,
        /// Fields in the order that Bolt defines for the signature; at most 15.
        fields: Vec<Value>,
    },
}

impl Value {
    /// The value under `key`, where this is a map that has it (the last one, if it has several).
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Value> {
        match self {
            Value::Map(pairs) => pairs.iter().rev().find(|(name, _)| name == key).map(|(_, value)| value),
            _ => None,
        }
    }

    /// The text, where this is a string.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::String(text) => Some(text),
            _ => None,
        }
    }

    /// The number, where this is an integer.
    #[must_use]
    pub fn as_int(&self) -> Option<i64> {
        match self {
            Value::Int(number) => Some(*number),
            _ => None,
        }
    }

    /// The flag, where this is a boolean.
    #[must_use]
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Value::Bool(flag) => Some(*flag),
            _ => None,
        }
    }

    /// The items, where this is a list.
    #[must_use]
    pub fn as_list(&self) -> Option<&[Value]> {
        match self {
            Value::List(items) => Some(items),
            _ => None,
        }
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Value::String(text.to_owned())
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Value::Int(number)
    }
}
