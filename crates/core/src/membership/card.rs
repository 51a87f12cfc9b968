//! A node's description of itself: its name and address, its life, its phase, its share of the keys.
//!
//! A card travels in the answer to a probe and as a node's identity in gossip. This module decides which of two cards
//! of one life is newer. It never decides whether a card is true: the TCP probe does.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use super::bolt_addrs::BoltAddrs;
use crate::limits::{WEIGHT_DEFAULT, WEIGHT_MAX, WEIGHT_MIN};
use crate::node::{Incarnation, NodeName};

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

/// A node's share of the keys relative to other nodes, in hundredths: 100 is one share. People read it as a factor (1.0).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Deserialize)]
#[serde(try_from = "u16")]
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
        if to.is_human_readable() {
            to.serialize_f64(f64::from(self.0) / 100.0)
        } else {
            to.serialize_u16(self.0)
        }
    }
}

impl TryFrom<u16> for Weight {
    type Error = BadWeight;

    fn try_from(hundredths: u16) -> Result<Self, BadWeight> {
        Self::new(hundredths)
    }
}

/// A node's description of itself, at most [`crate::limits::CARD_BYTES_MAX`] bytes between nodes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
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
    /// Where its Bolt clients reach it, as far as it says so.
    pub bolt: BoltAddrs,
}

impl Card {
    /// The first card of a life, of this build.
    #[must_use]
    pub fn new(name: NodeName, peer_addr: SocketAddr, life: Incarnation, phase: Phase) -> Self {
        Self {
            name,
            peer_addr,
            life,
            revision: 0,
            phase,
            weight: Weight::default(),
            bolt: BoltAddrs::default(),
        }
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
}
