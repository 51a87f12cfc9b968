//! Where clients reach a node's Bolt listener, and which clients are told which address. A card carries both between nodes.
//!
//! It decides the forms, and which address of another node a client is told. Which clients an audience has, the node decides
//! that is asked: all nodes of a cluster give their audiences in the same words.

use xxhash_rust::xxh3::xxh3_64;

use crate::limits::{BOLT_ADDR_BYTES_MAX, BOLT_ADDRS_BYTES_MAX, BOLT_ADDRS_MAX};

/// A number of 32 bits between nodes.
const AUDIENCE_BYTES_MAX: usize = 5;

/// Where Bolt clients reach a node: `host:port`, for routing tables. No other node connects to it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "&str")]
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

impl TryFrom<&str> for BoltAddr {
    type Error = BadBoltAddr;

    fn try_from(text: &str) -> Result<Self, BadBoltAddr> {
        Self::new(text)
    }
}

/// The clients that are told an address, as a digest of the words of `node.bolt_advertise`: all nodes of a cluster give the same words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct Audience(u32);

impl Audience {
    /// All clients.
    pub const EVERYONE: Self = Self(0);

    /// Those of these words. Without any: all clients.
    #[must_use]
    pub fn of(words: &str) -> Self {
        match words {
            "" => Self::EVERYONE,
            words => Self((xxh3_64(words.as_bytes()) as u32).max(1)),
        }
    }
}

/// One address of a node's Bolt listener, and the clients that are told it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct AdvertisedBolt {
    /// The address.
    pub addr: BoltAddr,
    /// The clients.
    pub audience: Audience,
}

/// The addresses of one node's Bolt listener: at most [`BOLT_ADDRS_MAX`], of [`BOLT_ADDRS_BYTES_MAX`] bytes together. Without one, each
/// client is told the address that it has dialled.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, serde::Deserialize)]
#[serde(try_from = "Vec<AdvertisedBolt>")]
pub struct BoltAddrs(Vec<AdvertisedBolt>);

/// Too many addresses for a card.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "at most {BOLT_ADDRS_MAX} addresses, which have at most {BOLT_ADDRS_BYTES_MAX} bytes with their clients"
)]
pub struct TooManyBoltAddrs;

impl BoltAddrs {
    /// The addresses that a client is told by a node: the one of the same audience, or else the one for all.
    #[must_use]
    pub fn told_to(&self, audience: Audience) -> Option<&BoltAddr> {
        let of = |wanted: Audience| self.0.iter().find(|told| told.audience == wanted);
        of(audience).or_else(|| of(Audience::EVERYONE)).map(|told| &told.addr)
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The addresses, in the order of the configuration.
    pub fn iter(&self) -> impl Iterator<Item = &AdvertisedBolt> {
        self.0.iter()
    }
}

impl TryFrom<Vec<AdvertisedBolt>> for BoltAddrs {
    type Error = TooManyBoltAddrs;

    fn try_from(all: Vec<AdvertisedBolt>) -> Result<Self, TooManyBoltAddrs> {
        let bytes: usize = all.iter().map(|told| 1 + told.addr.0.len() + AUDIENCE_BYTES_MAX).sum();
        match all.len() <= BOLT_ADDRS_MAX && bytes <= BOLT_ADDRS_BYTES_MAX {
            true => Ok(Self(all)),
            false => Err(TooManyBoltAddrs),
        }
    }
}

impl From<BoltAddr> for BoltAddrs {
    fn from(addr: BoltAddr) -> Self {
        Self(vec![AdvertisedBolt { addr, audience: Audience::EVERYONE }])
    }
}

impl serde::Serialize for BoltAddrs {
    /// For people they are texts: `"a:7478"`, or `["localhost:7478", "a:7478"]`.
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match (to.is_human_readable(), &*self.0) {
            (false, all) => to.collect_seq(all),
            (true, [told]) => told.addr.serialize(to),
            (true, all) => to.collect_seq(all.iter().map(|told| &told.addr)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(addr: &str, audience: &str) -> AdvertisedBolt {
        AdvertisedBolt { addr: BoltAddr::new(addr).unwrap(), audience: Audience::of(audience) }
    }

    #[test]
    fn a_client_is_told_the_address_of_its_audience_or_the_one_for_all() {
        let both = vec![told("localhost:7488", "localhost"), told("node-b:7478", "")];
        let both = BoltAddrs::try_from(both).unwrap();
        let of = |audience: &str| both.told_to(Audience::of(audience)).map(BoltAddr::as_str);
        assert_eq!(of("localhost"), Some("localhost:7488"));
        assert_eq!(of(""), Some("node-b:7478"));
        assert_eq!(of("10.0.0.0/8"), Some("node-b:7478"), "this node has no address for them alone");
        let inside = BoltAddrs::try_from(vec![told("node-c:7478", "10.0.0.0/8")]).unwrap();
        assert_eq!(inside.told_to(Audience::of("localhost")), None);
    }

    #[test]
    fn a_card_has_no_room_for_more() {
        let one = told("node-a:7478", "localhost");
        assert!(BoltAddrs::try_from(vec![one.clone(); BOLT_ADDRS_MAX]).is_ok());
        assert_eq!(BoltAddrs::try_from(vec![one; BOLT_ADDRS_MAX + 1]), Err(TooManyBoltAddrs));
        let long = told(&format!("{}:1", "n".repeat(BOLT_ADDR_BYTES_MAX - 2)), "");
        assert_eq!(BoltAddrs::try_from(vec![long; 3]), Err(TooManyBoltAddrs));
    }
}
