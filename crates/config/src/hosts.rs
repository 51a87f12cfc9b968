//! Names in `node.allowed_hosts`. It decides their forms, and never whether a request is served.

use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::uri::{parse_host, text_value};

/// A host that requests may name, in lower case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AllowedHost {
    /// `*`: any host.
    Any,
    /// `ops.example.com`: this host.
    Exact(String),
    /// `.example.com`: this domain, and every name under it.
    Under(String),
}

impl FromStr for AllowedHost {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim().to_ascii_lowercase();
        if text == "*" {
            return Ok(Self::Any);
        }
        if text.contains(':') {
            return Err("a name has no scheme and no port, and an IP address needs no permission".to_owned());
        }
        match text.strip_prefix('.') {
            Some(domain) => parse_host(domain).map(Self::Under),
            None => parse_host(&text).map(Self::Exact),
        }
    }
}

impl fmt::Display for AllowedHost {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => out.write_str("*"),
            Self::Exact(host) => out.write_str(host),
            Self::Under(domain) => write!(out, ".{domain}"),
        }
    }
}

text_value!(
    AllowedHost,
    "AllowedHost",
    "host",
    "a host name such as ops.example.com, a domain with all names under it such as .example.com, or *"
);
