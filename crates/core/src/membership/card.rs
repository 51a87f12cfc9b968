//! A node's description of itself: its name and address, its life, its phase, its share of the keys.
//!
//! A card travels in the answer to a probe and as a node's identity in gossip. This module decides which of two cards
//! of one life is newer, which protocols understand each other, and how a card is encoded. It never decides whether a
//! card is true: the TCP probe does.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use crate::limits::{BOLT_ADDR_BYTES_MAX, WEIGHT_DEFAULT, WEIGHT_MAX, WEIGHT_MIN};
use crate::node::{Incarnation, NodeName};

/// The protocol between nodes of this build: high byte major, low byte minor.
pub const PROTOCOL: u16 = 0x0100;

/// Whether a node of this build understands `protocol`: the major numbers are equal. A minor number may
/// only add what an older node can ignore, so that a rolling upgrade never splits a cluster.
#[must_use]
pub const fn is_compatible(protocol: u16) -> bool {
    protocol >> 8 == PROTOCOL >> 8
}

/// The phase of a node's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// Looks for the other nodes. Owns nothing.
    Joining,
    /// Owns its share of the keys.
    Ready,
    /// About to end. Owns nothing; still answers questions.
    Draining,
}

impl Phase {
    const fn code(self) -> u8 {
        match self {
            Self::Joining => 0,
            Self::Ready => 1,
            Self::Draining => 2,
        }
    }

    const fn of_code(code: u8) -> Option<Self> {
        match code {
            0 => Some(Self::Joining),
            1 => Some(Self::Ready),
            2 => Some(Self::Draining),
            _ => None,
        }
    }
}

/// A node's share of the keys relative to other nodes, in hundredths: 100 is one share. Serialised as a factor (1.0).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Weight(u16);

/// A weight outside the range that a ring supports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a weight is from {} to {}", f64::from(WEIGHT_MIN) / 100.0, f64::from(WEIGHT_MAX) / 100.0)]
pub struct BadWeight;

impl Weight {
    /// From hundredths.
    ///
    /// # Errors
    /// [`BadWeight`] outside of [`WEIGHT_MIN`] to [`WEIGHT_MAX`].
    pub const fn new(hundredths: u16) -> Result<Self, BadWeight> {
        if hundredths < WEIGHT_MIN || hundredths > WEIGHT_MAX {
            return Err(BadWeight);
        }
        Ok(Self(hundredths))
    }

    /// From a factor, as in a configuration (1.0 is one share).
    ///
    /// # Errors
    /// [`BadWeight`] outside of the range, or not a number.
    pub fn from_factor(factor: f64) -> Result<Self, BadWeight> {
        let hundredths = (factor * 100.0).round();
        let fits = hundredths >= f64::from(WEIGHT_MIN) && hundredths <= f64::from(WEIGHT_MAX);
        if fits { Self::new(hundredths as u16) } else { Err(BadWeight) }
    }

    /// In hundredths.
    #[must_use]
    pub const fn hundredths(self) -> u16 {
        self.0
    }
}

impl Default for Weight {
    fn default() -> Self {
        Self(WEIGHT_DEFAULT)
    }
}

impl fmt::Display for Weight {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", f64::from(self.0) / 100.0)
    }
}

impl serde::Serialize for Weight {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_f64(f64::from(self.0) / 100.0)
    }
}

/// Where a node's Bolt clients reach it: `host:port`, for routing tables. No other node connects to it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(transparent)]
pub struct BoltAddr(String);

/// No address of a Bolt listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("host:port of at most {BOLT_ADDR_BYTES_MAX} bytes")]
pub struct BadBoltAddr;

impl BoltAddr {
    /// Reads `host:port`.
    ///
    /// # Errors
    /// [`BadBoltAddr`] if it is longer than [`BOLT_ADDR_BYTES_MAX`] bytes, or has another form.
    pub fn new(text: &str) -> Result<Self, BadBoltAddr> {
        let (host, port) = text.rsplit_once(':').ok_or(BadBoltAddr)?;
        let is_clean = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:[]".contains(&byte);
        let fits = text.len() <= BOLT_ADDR_BYTES_MAX && !host.is_empty() && host.bytes().all(is_clean);
        match port.parse::<u16>() {
            Ok(1..) if fits => Ok(Self(text.to_owned())),
            _ => Err(BadBoltAddr),
        }
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A node's description of itself.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Card {
    /// Its configured name.
    pub name: NodeName,
    /// Its stated address for peers (TCP) and gossip (UDP).
    pub peer_addr: SocketAddr,
    /// Its present life.
    pub life: Incarnation,
    /// Counts its cards in this life.
    pub revision: u32,
    /// The phase of its life.
    pub phase: Phase,
    /// Its share of the keys.
    pub weight: Weight,
    /// Its protocol between nodes; see [`is_compatible`].
    pub protocol: u16,
    /// The address for its Bolt clients, if it listens for any.
    pub bolt: Option<BoltAddr>,
}

impl Card {
    /// The first card of a life, of this build.
    #[must_use]
    pub fn new(name: NodeName, peer_addr: SocketAddr, life: Incarnation, phase: Phase) -> Self {
        let (weight, protocol) = (Weight::default(), PROTOCOL);
        Self { name, peer_addr, life, revision: 0, phase, weight, protocol, bolt: None }
    }

    /// Whether this card is newer than `other` of the same node and life. Lives are drawn at random and have no order,
    /// so between two lives neither card supersedes: a probe shows which of them is alive
    /// ([`super::Membership::answered`]).
    #[must_use]
    pub fn supersedes(&self, other: &Self) -> bool {
        self.is_of(&other.name, other.life) && self.revision > other.revision
    }

    /// Whether it is the card of this life of this node.
    #[must_use]
    pub fn is_of(&self, name: &NodeName, life: Incarnation) -> bool {
        self.life == life && self.name == *name
    }

    /// Whether another node could connect to the address: gossip may contain anything.
    #[must_use]
    pub fn is_reachable(&self) -> bool {
        let ip = self.peer_addr.ip();
        let broadcast = matches!(ip, IpAddr::V4(ip) if ip.is_broadcast());
        self.peer_addr.port() != 0 && !ip.is_unspecified() && !ip.is_multicast() && !broadcast
    }

    /// Appends the card. First comes the length of the rest in one byte, then protocol, life, revision, phase, weight,
    /// address (4 or 6, octets, port), length of the name and name. If there is a Bolt address, its length and the
    /// address follow. Numbers are big endian. At most [`crate::limits::CARD_BYTES_MAX`] bytes. A later minor protocol
    /// may append fields.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let length_at = out.len();
        out.push(0);
        out.extend_from_slice(&self.protocol.to_be_bytes());
        out.extend_from_slice(&self.life.0.to_be_bytes());
        out.extend_from_slice(&self.revision.to_be_bytes());
        out.push(self.phase.code());
        out.extend_from_slice(&self.weight.0.to_be_bytes());
        match self.peer_addr.ip() {
            IpAddr::V4(ip) => {
                out.push(4);
                out.extend_from_slice(&ip.octets());
            }
            IpAddr::V6(ip) => {
                out.push(6);
                out.extend_from_slice(&ip.octets());
            }
        }
        out.extend_from_slice(&self.peer_addr.port().to_be_bytes());
        let name = self.name.as_str().as_bytes();
        out.push(u8::try_from(name.len()).unwrap_or(u8::MAX));
        out.extend_from_slice(name);
        if let Some(bolt) = &self.bolt {
            out.push(u8::try_from(bolt.0.len()).unwrap_or(u8::MAX));
            out.extend_from_slice(bolt.0.as_bytes());
        }
        let len = out.len().saturating_sub(length_at + 1);
        if let Some(length) = out.get_mut(length_at) {
            *length = u8::try_from(len).unwrap_or(u8::MAX);
        }
    }

    /// Reads [`Card::encode`] from the front of `bytes`. Returns the card and the bytes after it. Total: any bytes are
    /// a card or none. Fields after the known ones are skipped.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (&len, rest) = bytes.split_first()?;
        let (body, after) = rest.split_at_checked(usize::from(len))?;
        let (protocol, body) = body.split_first_chunk()?;
        let (life, body) = body.split_first_chunk()?;
        let (revision, body) = body.split_first_chunk()?;
        let (&phase, body) = body.split_first()?;
        let (weight, body) = body.split_first_chunk()?;
        let (ip, body) = match body.split_first()? {
            (4, body) => body.split_first_chunk::<4>().map(|(ip, body)| (IpAddr::from(*ip), body))?,
            (6, body) => body.split_first_chunk::<16>().map(|(ip, body)| (IpAddr::from(*ip), body))?,
            _ => return None,
        };
        let (port, body) = body.split_first_chunk()?;
        let (&name_len, body) = body.split_first()?;
        let (name, body) = body.split_at_checked(usize::from(name_len))?;
        let name = std::str::from_utf8(name).ok()?;
        let card = Self {
            name: NodeName::new(name).ok()?,
            peer_addr: SocketAddr::new(ip, u16::from_be_bytes(*port)),
            life: Incarnation(u64::from_be_bytes(*life)),
            revision: u32::from_be_bytes(*revision),
            phase: Phase::of_code(phase)?,
            weight: Weight::new(u16::from_be_bytes(*weight)).ok()?,
            protocol: u16::from_be_bytes(*protocol),
            bolt: bolt_of(body),
        };
        Some((card, after))
    }
}

/// The Bolt address after a name. Other bytes there are a field of a later version, and skipped.
fn bolt_of(body: &[u8]) -> Option<BoltAddr> {
    let (&len, rest) = body.split_first()?;
    let text = std::str::from_utf8(rest.get(..usize::from(len))?).ok()?;
    BoltAddr::new(text).ok()
}
