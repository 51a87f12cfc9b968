//! Addresses: those of listeners and peers, the URIs of the origin and the store. This file decides their forms and
//! how they are shown without their passwords. It never connects or resolves anything.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::text::{MASK, Secret};

/// `host:port`. The host is a DNS name, an IPv4 address or an IPv6 address in brackets. Port 0 of a listener means a
/// free port that the system chooses.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    /// DNS name or IP address, without brackets.
    pub host: String,
    /// TCP (and for gossip UDP) port.
    pub port: u16,
}

impl Address {
    /// Whether the host can be reached from this machine only.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        self.host.eq_ignore_ascii_case("localhost") || self.ip().is_some_and(|ip| ip.is_loopback())
    }

    /// Whether the host stands for every interface (`0.0.0.0`, `[::]`), so that other machines cannot use it.
    #[must_use]
    pub fn is_unspecified(&self) -> bool {
        self.ip().is_some_and(|ip| ip.is_unspecified())
    }

    fn ip(&self) -> Option<IpAddr> {
        self.host.parse().ok()
    }
}

impl fmt::Display for Address {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(out, "[{}]:{}", self.host, self.port)
        } else {
            write!(out, "{}:{}", self.host, self.port)
        }
    }
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (host, port) = text.trim().rsplit_once(':').ok_or("it has no port")?;
        let port = port.parse().map_err(|_| "the port is no number from 0 to 65535".to_owned())?;
        Ok(Self { host: parse_host(host)?, port })
    }
}

pub(super) fn parse_host(text: &str) -> Result<String, String> {
    if let Some(inner) = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        let ip: std::net::Ipv6Addr =
            inner.parse().map_err(|_| "no IPv6 address in the brackets".to_owned())?;
        return Ok(ip.to_string());
    }
    let fits = !text.is_empty() && text.len() <= 253;
    let clean = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte));
    if fits && clean { Ok(text.to_owned()) } else { Err("the host is no DNS name or IP address".to_owned()) }
}

/// `host:port`, or nothing: an empty text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OptionalAddress(pub Option<Address>);

impl fmt::Display for OptionalAddress {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_ref().map_or(Ok(()), |address| address.fmt(out))
    }
}

impl FromStr for OptionalAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.trim().is_empty() { Ok(Self(None)) } else { text.parse().map(|address| Self(Some(address))) }
    }
}

/// The graph database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OriginUri {
    /// `embedded:`, the sample graph inside this process.
    Embedded,
    /// `bolt://host:port` or `neo4j://host:port`, in one of its encryptions.
    Bolt {
        /// How the connection is protected.
        encryption: BoltEncryption,
        /// Where the server listens; port 7687 if none is given.
        address: Address,
        /// `neo4j`: the server is a member of a cluster, and names the others by its routing tables.
        is_cluster: bool,
    },
}

/// How a Bolt connection is protected, by the URI's scheme.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BoltEncryption {
    /// `bolt`, `neo4j`: no protection.
    Plain,
    /// `bolt+s`, `neo4j+s`: TLS, the certificate is checked.
    Tls,
    /// `bolt+ssc`, `neo4j+ssc`: TLS, any certificate is accepted.
    TlsSelfSigned,
}

/// Bolt's registered port.
const BOLT_PORT: u16 = 7687;

impl FromStr for OriginUri {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if matches!(text, "embedded:" | "embedded") {
            return Ok(Self::Embedded);
        }
        let (scheme, rest) = text.split_once("://").ok_or("it has no scheme")?;
        let encryption = match scheme {
            "bolt" | "neo4j" => BoltEncryption::Plain,
            "bolt+s" | "neo4j+s" => BoltEncryption::Tls,
            "bolt+ssc" | "neo4j+ssc" => BoltEncryption::TlsSelfSigned,
            _ => return Err("its scheme is unknown".to_owned()),
        };
        if rest.contains('?') {
            return Err("a routing context (behind the ?) is not supported; leave it out".to_owned());
        }
        if rest.contains('@') {
            return Err("credentials do not belong here; use origin.user and origin.password_file".to_owned());
        }
        let authority = rest.strip_suffix('/').unwrap_or(rest);
        let ported = authority.rfind(':').is_some_and(|colon| !authority[colon..].contains(']'));
        let whole = if ported { authority.to_owned() } else { format!("{authority}:{BOLT_PORT}") };
        let is_cluster = scheme.starts_with("neo4j");
        Ok(Self::Bolt { encryption, address: whole.parse()?, is_cluster })
    }
}

impl fmt::Display for OriginUri {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Embedded => out.write_str("embedded:"),
            Self::Bolt { encryption, address, is_cluster } => {
                let scheme = if *is_cluster { "neo4j" } else { "bolt" };
                let tls = match encryption {
                    BoltEncryption::Plain => "",
                    BoltEncryption::Tls => "+s",
                    BoltEncryption::TlsSelfSigned => "+ssc",
                };
                write!(out, "{scheme}{tls}://{address}")
            }
        }
    }
}

/// The store that the nodes share.
#[derive(Debug, Clone)]
pub enum StoreUri {
    /// `memory:`, inside this process.
    Memory,
    /// Redis.
    Redis(RedisUri),
}

/// A Redis URI: `redis://[user:password@]host:port[/database]`; `rediss` for TLS; `+cluster` and
/// `+sentinel` after the scheme take several hosts with commas between them.
#[derive(Debug, Clone)]
pub struct RedisUri {
    /// The whole URI as configured.
    url: Secret,
    /// The same without its password.
    shown: String,
}

impl RedisUri {
    /// The whole URI, password included, for the client that connects.
    #[must_use]
    pub fn expose(&self) -> &str {
        self.url.expose()
    }

    /// Whether the connection has TLS.
    #[must_use]
    pub fn is_tls(&self) -> bool {
        self.url.expose().starts_with("rediss")
    }
}

/// Schemes of a store that is a Redis.
const REDIS_SCHEMES: [&str; 6] =
    ["redis", "rediss", "redis+cluster", "rediss+cluster", "redis+sentinel", "rediss+sentinel"];

impl FromStr for StoreUri {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if matches!(text, "memory:" | "memory") {
            return Ok(Self::Memory);
        }
        let (scheme, rest) = text.split_once("://").ok_or("it has no scheme")?;
        if !REDIS_SCHEMES.contains(&scheme) {
            return Err("its scheme is unknown".to_owned());
        }
        let (authority, path) = rest.find(['/', '?']).map_or((rest, ""), |at| rest.split_at(at));
        let (user, hosts) =
            authority.rsplit_once('@').map_or((None, authority), |(user, hosts)| (Some(user), hosts));
        let several = scheme.ends_with("+cluster") || scheme.ends_with("+sentinel");
        if hosts.contains(',') && !several {
            return Err("several hosts need redis+cluster:// or redis+sentinel://".to_owned());
        }
        for host in hosts.split(',') {
            check_redis_host(host)?;
        }
        let path = path.split_once('?').map_or(path.to_owned(), |(path, _)| format!("{path}?{MASK}"));
        let user = user
            .map(|user| user.split_once(':').map_or(MASK.to_owned(), |(name, _)| format!("{name}:{MASK}")));
        let shown = match user {
            Some(user) => format!("{scheme}://{user}@{hosts}{path}"),
            None => format!("{scheme}://{hosts}{path}"),
        };
        Ok(Self::Redis(RedisUri { url: Secret::new(text), shown }))
    }
}

fn check_redis_host(host: &str) -> Result<(), String> {
    let ported = host.rfind(':').is_some_and(|colon| !host[colon..].contains(']'));
    if ported { host.parse::<Address>().map(drop) } else { parse_host(host).map(drop) }
}

impl fmt::Display for StoreUri {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory => out.write_str("memory:"),
            Self::Redis(redis) => out.write_str(&redis.shown),
        }
    }
}

/// Serde and schema by `FromStr` and `Display`. `$allowed` is the text of an error for the allowed values.
macro_rules! text_value {
    ($name:ty, $title:literal, $kind:literal, $allowed:literal) => {
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
                out.collect_str(self)
            }
        }
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
                String::deserialize(input)?.parse().map_err(D::Error::custom)
            }
        }
        impl JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                $title.into()
            }
            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({"type": "string", "x-kind": $kind, "x-allowed": $allowed})
            }
        }
    };
}

pub(super) use text_value;

text_value!(Address, "Address", "address", "host:port, for example 127.0.0.1:7475");
text_value!(
    OptionalAddress,
    "OptionalAddress",
    "address",
    "host:port, for example 127.0.0.1:7478, or nothing"
);
text_value!(
    OriginUri,
    "OriginUri",
    "uri",
    "\"embedded:\", or bolt://, bolt+s:// or bolt+ssc:// with host:port for one server, or neo4j://, neo4j+s:// or neo4j+ssc:// for a cluster or Aura"
);
text_value!(
    StoreUri,
    "StoreUri",
    "uri",
    "\"memory:\", or redis://, rediss://, redis+cluster:// or redis+sentinel:// with host:port"
);
