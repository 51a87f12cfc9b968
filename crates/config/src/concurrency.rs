//! The values of `origin.max_concurrent` (a number, or `adaptive`) and of `origin.line`.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use hopcache_core::limits::ORIGIN_LIMIT_MAX;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::text::TextOrNumber;

/// The order of the runs that wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum RunOrder {
    /// The one that is expected to be the shortest, by earlier runs of its pattern. No run lets others go first for more
    /// than 8 s of their work.
    Shortest,
    /// The one that came first.
    Arrival,
}

/// The largest number that may be configured.
const NUMBER_MAX: u64 = 4_096;

/// How many runs this node may have at the origin at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MaxConcurrent {
    /// Learned from Neo4j's response times, up to [`ORIGIN_LIMIT_MAX`].
    Adaptive,
    /// Always this many.
    Number(u32),
}

impl MaxConcurrent {
    /// The greatest number of runs that there may ever be.
    #[must_use]
    pub fn most(self) -> usize {
        match self {
            Self::Adaptive => ORIGIN_LIMIT_MAX,
            Self::Number(number) => usize::try_from(number).unwrap_or(usize::MAX),
        }
    }

    fn of_number(number: u64) -> Result<Self, String> {
        match u32::try_from(number) {
            Ok(runs) if (1..=NUMBER_MAX).contains(&number) => Ok(Self::Number(runs)),
            _ => Err("it is out of range".to_owned()),
        }
    }
}

impl fmt::Display for MaxConcurrent {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Adaptive => out.write_str("adaptive"),
            Self::Number(number) => number.fmt(out),
        }
    }
}

impl FromStr for MaxConcurrent {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "adaptive" {
            return Ok(Self::Adaptive);
        }
        Self::of_number(text.parse().map_err(|_| "it is neither \"adaptive\" nor a number".to_owned())?)
    }
}

impl Serialize for MaxConcurrent {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Adaptive => out.collect_str(self),
            Self::Number(number) => out.serialize_u32(*number),
        }
    }
}

impl<'de> Deserialize<'de> for MaxConcurrent {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        let given =
            TextOrNumber::deserialize(input).map_err(|_| D::Error::custom("it is no whole number"))?;
        match given {
            TextOrNumber::Text(text) => text.parse(),
            TextOrNumber::Number(number) => Self::of_number(number),
        }
        .map_err(D::Error::custom)
    }
}

impl JsonSchema for MaxConcurrent {
    fn schema_name() -> Cow<'static, str> {
        "MaxConcurrent".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": ["string", "integer"],
            "x-kind": "text",
            "x-allowed": "\"adaptive\", or a whole number from 1 to 4096"
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_or_adaptive_and_nothing_else() {
        let of = |text: &str| serde_json::from_str::<MaxConcurrent>(text).map_err(|error| error.to_string());
        for (text, value) in [
            ("\"adaptive\"", MaxConcurrent::Adaptive),
            ("8", MaxConcurrent::Number(8)),
            ("\"8\"", MaxConcurrent::Number(8)),
            ("4096", MaxConcurrent::Number(4_096)),
        ] {
            assert_eq!(of(text), Ok(value));
            let shown = serde_json::to_string(&value).unwrap();
            assert_eq!(of(&shown), Ok(value), "{shown} is read again");
        }
        for text in ["0", "4097", "-1", "1.5", "\"\"", "\"Adaptive\"", "true", "18446744073709551615"] {
            assert!(of(text).is_err(), "{text}");
        }
        assert_eq!((MaxConcurrent::Adaptive.most(), MaxConcurrent::Number(8).most()), (ORIGIN_LIMIT_MAX, 8));
    }
}
