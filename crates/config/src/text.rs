//! The texts of single values: durations, sizes, addresses, URIs, names, secrets. It decides the form of each and how
//! it is written back, and never the key or the range of a value.

use std::fmt;

use hopcache_core::node::NodeName;
use hopcache_core::time::Millis;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use secrecy::{ExposeSecret, SecretString};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The name of a cluster without a configured name.
pub const CLUSTER_NAME_DEFAULT: &str = "hopcache";

/// The mask that replaces a secret wherever a value is shown.
pub const MASK: &str = "********";

/// Reads a duration such as `60s`, `250ms`, `1h 30m`. `0` needs no unit; every other number does.
///
/// # Errors
/// A sentence that names the error.
pub fn parse_duration(text: &str) -> Result<Millis, String> {
    if text.trim() == "0" {
        return Ok(Millis::ZERO);
    }
    let span = humantime::parse_duration(text.trim()).map_err(|error| match error {
        humantime::DurationError::NumberOverflow => "too long to be a duration".to_owned(),
        _ if text.trim().bytes().all(|byte| byte.is_ascii_digit()) => "it has no unit".to_owned(),
        other => other.to_string(),
    })?;
    let millis = u64::try_from(span.as_millis()).map_err(|_| "too long to be a duration".to_owned())?;
    if millis == 0 && !span.is_zero() {
        return Err("shorter than 1ms".to_owned());
    }
    Ok(Millis(millis))
}

/// Reads a size such as `256MiB`, `8MB` or a plain number of bytes.
///
/// # Errors
/// A sentence that names the error.
pub fn parse_size(text: &str) -> Result<u64, String> {
    text.trim().parse::<bytesize::ByteSize>().map(|size| size.as_u64())
}

/// Writes bytes in the largest binary unit that divides them.
#[must_use]
pub fn format_size(bytes: u64) -> String {
    let units = [("GiB", 30_u32), ("MiB", 20), ("KiB", 10)];
    let unit = units.iter().find(|(_, shift)| bytes > 0 && bytes.is_multiple_of(1 << shift));
    unit.map_or_else(|| format!("{bytes}B"), |(name, shift)| format!("{}{name}", bytes >> shift))
}

/// Writes a duration as [`parse_duration`] reads it.
#[must_use]
pub fn format_duration(span: Millis) -> String {
    if span == Millis::ZERO {
        "0".to_owned()
    } else {
        humantime::format_duration(span.duration()).to_string()
    }
}

/// A text, or a bare number as TOML writes it.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum TextOrNumber {
    Text(String),
    Number(u64),
}

/// Serde form of a [`Millis`] field.
pub(super) mod duration {
    use super::{
        Deserialize, Deserializer, JsonSchema, Millis, Schema, SchemaGenerator, Serializer, TextOrNumber,
        format_duration, json_schema, parse_duration,
    };
    use serde::de::Error as _;

    pub(crate) fn serialize<S: Serializer>(span: &Millis, out: S) -> Result<S::Ok, S::Error> {
        out.serialize_str(&format_duration(*span))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(input: D) -> Result<Millis, D::Error> {
        match TextOrNumber::deserialize(input).map_err(|_| D::Error::custom("not a duration"))? {
            TextOrNumber::Text(text) => parse_duration(&text).map_err(D::Error::custom),
            TextOrNumber::Number(0) => Ok(Millis::ZERO),
            TextOrNumber::Number(_) => Err(D::Error::custom("it has no unit")),
        }
    }

    /// The same for an optional field.
    pub(crate) mod optional {
        use super::{Deserializer, Millis, Serializer};

        pub(crate) fn serialize<S: Serializer>(span: &Option<Millis>, out: S) -> Result<S::Ok, S::Error> {
            match span {
                Some(span) => super::serialize(span, out),
                None => out.serialize_none(),
            }
        }

        pub(crate) fn deserialize<'de, D: Deserializer<'de>>(input: D) -> Result<Option<Millis>, D::Error> {
            super::deserialize(input).map(Some)
        }
    }

    /// Its schema.
    pub(crate) struct Text;
    impl JsonSchema for Text {
        fn schema_name() -> std::borrow::Cow<'static, str> {
            "Duration".into()
        }
        fn json_schema(_: &mut SchemaGenerator) -> Schema {
            json_schema!({"type": ["string", "integer"], "x-kind": "duration"})
        }
    }
}

/// Serde form of a field of bytes.
pub(super) mod size {
    use super::{
        Deserialize, Deserializer, JsonSchema, Schema, SchemaGenerator, Serializer, TextOrNumber,
        format_size, json_schema, parse_size,
    };
    use serde::de::Error as _;

    pub(crate) fn serialize<S: Serializer>(bytes: &u64, out: S) -> Result<S::Ok, S::Error> {
        out.serialize_str(&format_size(*bytes))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(input: D) -> Result<u64, D::Error> {
        match TextOrNumber::deserialize(input).map_err(|_| D::Error::custom("not a size"))? {
            TextOrNumber::Text(text) => parse_size(&text).map_err(D::Error::custom),
            TextOrNumber::Number(bytes) => Ok(bytes),
        }
    }

    /// Its schema.
    pub(crate) struct Text;
    impl JsonSchema for Text {
        fn schema_name() -> std::borrow::Cow<'static, str> {
            "Size".into()
        }
        fn json_schema(_: &mut SchemaGenerator) -> Schema {
            json_schema!({"type": ["string", "integer"], "x-kind": "size"})
        }
    }
}

/// Serde form of an optional node name.
pub(super) mod name {
    use super::{Deserialize, Deserializer, NodeName};
    use serde::de::Error as _;

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(input: D) -> Result<Option<NodeName>, D::Error> {
        let text = Option::<String>::deserialize(input)?;
        text.map(|text| NodeName::new(&text).map_err(D::Error::custom)).transpose()
    }
}

/// Reads a cluster's name. It has the form of a node's name.
pub(super) mod cluster_name {
    use super::{Deserialize, Deserializer, NodeName};
    use serde::de::Error as _;

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(input: D) -> Result<String, D::Error> {
        let text = String::deserialize(input)?;
        match NodeName::new(&text) {
            Ok(_) => Ok(text),
            Err(_) => Err(D::Error::custom("it has other characters, or too many")),
        }
    }
}

/// A text that is never shown: its `Debug`, `Display` and serde forms are a mask.
#[derive(Clone)]
pub struct Secret(SecretString);

impl Secret {
    /// Keeps a text.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self(SecretString::from(text))
    }

    /// The text itself, for the one place that needs it.
    #[must_use]
    pub fn expose(&self) -> &str {
        self.0.expose_secret()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(MASK)
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.serialize_str(MASK)
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        let text = String::deserialize(input)?;
        if text.trim().is_empty() { Err(D::Error::custom("it is empty")) } else { Ok(Self::new(text.trim())) }
    }
}

impl JsonSchema for Secret {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Secret".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "x-secret": true})
    }
}
