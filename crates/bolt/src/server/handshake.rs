//! The first bytes of a connection: which version both sides speak. This file knows both handshakes: the legacy one
//! (four offers) and the manifest (the server lists, the client picks).

use bytes::{Buf, BytesMut};

/// First bytes of every Bolt connection.
const MAGIC: [u8; 4] = [0x60, 0x60, 0xB0, 0x17];
/// Magic and four offers.
const OPENING_BYTES: usize = 20;
/// The offer that asks for the manifest.
const MANIFEST: [u8; 4] = [0x00, 0x00, 0x01, 0xFF];
/// Longest capability mask that is read, in bytes. Nine bytes hold 63 bits, and no capability is defined yet.
const CAPABILITY_BYTES_MAX: usize = 9;
/// First byte of a TLS record of a handshake.
const TLS: u8 = 0x16;

/// A Bolt version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// 4, 5 or 6.
    pub major: u8,
    /// Minor version.
    pub minor: u8,
}

impl Version {
    /// A version.
    #[must_use]
    pub const fn new(major: u8, minor: u8) -> Self {
        Self { major, minor }
    }

    /// The newest version that this server speaks.
    pub const NEWEST: Self = Self::new(6, 1);

    /// Whether this server speaks the version. It speaks the versions of Neo4j 2026.09. 5.5 was withdrawn.
    #[must_use]
    pub const fn is_spoken(self) -> bool {
        match self.major {
            6 => self.minor <= 1,
            5 => self.minor <= 8 && self.minor != 5,
            4 => self.minor >= 1 && self.minor <= 4,
            _ => false,
        }
    }

    /// Whether credentials come in LOGON (5.1) and not in HELLO.
    #[must_use]
    pub const fn has_logon(self) -> bool {
        self.at_least(5, 1)
    }

    /// Whether summaries have GQL statuses instead of notifications.
    #[must_use]
    pub const fn has_statuses(self) -> bool {
        self.at_least(5, 6)
    }

    /// Whether failures have a GQL status.
    #[must_use]
    pub const fn has_gql_failures(self) -> bool {
        self.at_least(5, 7)
    }

    /// Whether values may be vectors, and what a version does not have is named ([`tag::UNSUPPORTED`]) instead of a map.
    ///
    /// [`tag::UNSUPPORTED`]: hopcache_packstream::tag::UNSUPPORTED
    #[must_use]
    pub const fn has_vectors(self) -> bool {
        self.at_least(6, 0)
    }

    /// Whether values may be UUIDs.
    #[must_use]
    pub const fn has_uuids(self) -> bool {
        self.at_least(6, 1)
    }

    /// Whether it is this version or a later one.
    #[must_use]
    pub const fn at_least(self, major: u8, minor: u8) -> bool {
        self.major > major || (self.major == major && self.minor >= minor)
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}.{}", self.major, self.minor)
    }
}

/// Why no version was agreed on. The connection is to be closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HandshakeRefusal {
    /// The client begins TLS on a plain listener.
    #[error("the client speaks TLS: use bolt:// or neo4j://, or set certificates for this listener")]
    Tls,
    /// The client sent an HTTP request.
    #[error("the client speaks HTTP: the Query API is on node.client_addr")]
    Http,
    /// The client sent something else.
    #[error("the client does not speak Bolt")]
    NotBolt,
    /// There is no version in common. The client has got that answer.
    #[error("the client offers no Bolt version that is spoken here (6.0 to 6.1, 5.0 to 5.8, 4.1 to 4.4)")]
    NoVersion,
}

/// The state of a handshake after some bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Agreement {
    /// More bytes are needed.
    Pending,
    /// This version is spoken from now on.
    On(Version),
    /// There is no version in common.
    Refused(HandshakeRefusal),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Opening,
    Picking,
}

/// The handshake of one connection.
#[derive(Debug, Clone)]
pub struct Handshake {
    stage: Stage,
    newest: Version,
}

impl Handshake {
    /// A handshake that agrees on no version newer than `newest`.
    #[must_use]
    pub const fn new(newest: Version) -> Self {
        Self { stage: Stage::Opening, newest }
    }

    /// Takes its bytes from the front of `input` and appends the bytes to send to `out`.
    pub fn receive(&mut self, input: &mut BytesMut, out: &mut Vec<u8>) -> Agreement {
        match self.stage {
            Stage::Opening => self.open(input, out),
            Stage::Picking => self.picked(input),
        }
    }

    fn open(&mut self, input: &mut BytesMut, out: &mut Vec<u8>) -> Agreement {
        if let Some(refusal) = not_bolt(input) {
            return Agreement::Refused(refusal);
        }
        let Some(opening) = input.first_chunk::<OPENING_BYTES>().copied() else { return Agreement::Pending };
        input.advance(OPENING_BYTES);
        for offer in opening[4..].chunks_exact(4) {
            let offer = [offer[0], offer[1], offer[2], offer[3]];
            if offer == MANIFEST {
                self.stage = Stage::Picking;
                self.write_manifest(out);
                return self.picked(input);
            }
            if let Some(version) = self.best_of(offer) {
                out.extend_from_slice(&[0, 0, version.minor, version.major]);
                return Agreement::On(version);
            }
        }
        out.extend_from_slice(&[0; 4]);
        Agreement::Refused(HandshakeRefusal::NoVersion)
    }

    /// The newest version of an offer: `range` minor versions down from `minor`.
    fn best_of(&self, [_, range, minor, major]: [u8; 4]) -> Option<Version> {
        let lowest = minor.saturating_sub(range);
        (lowest..=minor).rev().map(|minor| Version { major, minor }).find(|version| self.speaks(*version))
    }

    fn speaks(&self, version: Version) -> bool {
        version.is_spoken() && version <= self.newest
    }

    /// Ranges as Neo4j writes them: the oldest first.
    fn write_manifest(&self, out: &mut Vec<u8>) {
        let ranges: Vec<[u8; 4]> = [(4, 4, 1), (5, 4, 0), (5, 8, 6), (6, 1, 0)]
            .into_iter()
            .filter_map(|(major, highest, lowest)| {
                let newest =
                    (lowest..=highest).rev().find(|minor| self.speaks(Version { major, minor: *minor }))?;
                Some([0, newest - lowest, newest, major])
            })
            .collect();
        out.extend_from_slice(&MANIFEST);
        out.push(u8::try_from(ranges.len()).unwrap_or(0));
        out.extend(ranges.concat());
        // No capabilities.
        out.push(0);
    }

    /// The client's pick: a version, and its capabilities. No capability is defined, so the mask is read and ignored.
    fn picked(&self, input: &mut BytesMut) -> Agreement {
        let Some(pick) = input.first_chunk::<4>().copied() else { return Agreement::Pending };
        let mask = &input[4..];
        let Some(end) = mask.iter().position(|byte| byte & 0x80 == 0) else {
            let is_endless = mask.len() >= CAPABILITY_BYTES_MAX;
            return if is_endless {
                Agreement::Refused(HandshakeRefusal::NotBolt)
            } else {
                Agreement::Pending
            };
        };
        if end >= CAPABILITY_BYTES_MAX {
            return Agreement::Refused(HandshakeRefusal::NotBolt);
        }
        let wants_some = mask[..=end].iter().any(|byte| byte & 0x7F != 0);
        input.advance(4 + end + 1);
        let version = Version { major: pick[3], minor: pick[2] };
        if pick[0] != 0 || pick[1] != 0 || wants_some || !self.speaks(version) {
            return Agreement::Refused(HandshakeRefusal::NoVersion);
        }
        Agreement::On(version)
    }
}

/// The protocol of the first bytes, as soon as they show it.
fn not_bolt(input: &BytesMut) -> Option<HandshakeRefusal> {
    let seen = input.len().min(MAGIC.len());
    if input[..seen] == MAGIC[..seen] {
        return None;
    }
    let starts =
        |prefix: &[u8]| input[..input.len().min(prefix.len())] == prefix[..input.len().min(prefix.len())];
    let is_http = [&b"GET "[..], b"POST", b"HEAD", b"OPTI", b"PUT "].into_iter().any(starts);
    match input.first() {
        Some(&TLS) => Some(HandshakeRefusal::Tls),
        _ if is_http && input.len() < 4 => None,
        _ if is_http => Some(HandshakeRefusal::Http),
        _ => Some(HandshakeRefusal::NotBolt),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opening(offers: [[u8; 4]; 4]) -> BytesMut {
        BytesMut::from(&[&MAGIC[..], &offers.concat()].concat()[..])
    }

    fn agreed(offers: [[u8; 4]; 4]) -> (Agreement, Vec<u8>) {
        let mut out = Vec::new();
        let agreement = Handshake::new(Version::NEWEST).receive(&mut opening(offers), &mut out);
        (agreement, out)
    }

    const NONE: [u8; 4] = [0; 4];

    #[test]
    fn the_first_offer_that_fits_is_taken_at_its_newest() {
        for (offers, version) in [
            ([[0, 4, 4, 5], [0, 2, 4, 4], NONE, NONE], Version::new(5, 4)),
            ([[0, 0, 1, 4], NONE, NONE, NONE], Version::new(4, 1)),
            ([[0, 0, 4, 4], [0, 8, 8, 5], NONE, NONE], Version::new(4, 4)),
            ([[0, 0, 9, 6], [0, 9, 12, 5], NONE, NONE], Version::new(5, 8)),
            ([[0, 1, 1, 6], [0, 8, 8, 5], NONE, NONE], Version::new(6, 1)),
            ([[0, 0, 0, 6], [0, 8, 8, 5], NONE, NONE], Version::new(6, 0)),
            ([[0, 9, 9, 6], NONE, NONE, NONE], Version::new(6, 1)),
            ([[0, 1, 5, 5], NONE, NONE, NONE], Version::new(5, 4)),
            ([NONE, NONE, NONE, [0, 3, 3, 4]], Version::new(4, 3)),
        ] {
            let (agreement, out) = agreed(offers);
            assert_eq!(agreement, Agreement::On(version), "{offers:?}");
            assert_eq!(out, [0, 0, version.minor, version.major]);
        }
    }

    #[test]
    fn no_version_in_common_is_said() {
        for offers in [[NONE; 4], [[0, 0, 3, 0], [0, 0, 0, 4], [0, 0, 5, 5], NONE]] {
            assert_eq!(
                agreed(offers),
                (Agreement::Refused(HandshakeRefusal::NoVersion), vec![0; 4]),
                "{offers:?}"
            );
        }
    }

    /// As recorded from Neo4j 2026.09, without 4.0, which no supported driver speaks any more.
    #[test]
    fn the_manifest_of_a_new_server_ends_with_bolt_6() {
        let mut handshake = Handshake::new(Version::NEWEST);
        let (mut input, mut out) = (opening([MANIFEST, NONE, NONE, NONE]), Vec::new());
        handshake.receive(&mut input, &mut out);
        let ranges = [4, 0, 3, 4, 4, 0, 4, 4, 5, 0, 2, 8, 5, 0, 1, 1, 6, 0];
        assert_eq!(out, [&MANIFEST[..], &ranges].concat());
        input.extend_from_slice(&[0, 0, 1, 6, 0]);
        assert_eq!(handshake.receive(&mut input, &mut out), Agreement::On(Version::new(6, 1)));
    }

    /// As recorded from Neo4j 5.26, without 4.0, which no supported driver speaks any more.
    #[test]
    fn the_manifest_lists_what_is_spoken_and_the_client_picks() {
        let mut handshake = Handshake::new(Version::new(5, 8));
        let (mut input, mut out) =
            (opening([MANIFEST, [0, 8, 8, 5], [0, 2, 4, 4], [0, 0, 0, 3]]), Vec::new());
        assert_eq!(handshake.receive(&mut input, &mut out), Agreement::Pending);
        let ranges = [3, 0, 3, 4, 4, 0, 4, 4, 5, 0, 2, 8, 5, 0];
        assert_eq!(out, [&MANIFEST[..], &ranges].concat());
        input.extend_from_slice(&[0, 0, 8, 5]);
        assert_eq!(handshake.receive(&mut input, &mut out), Agreement::Pending, "the mask is missing");
        input.extend_from_slice(&[0, 0xB1]);
        assert_eq!(handshake.receive(&mut input, &mut out), Agreement::On(Version::new(5, 8)));
        assert_eq!(input[..], [0xB1], "what comes behind is left");
    }

    #[test]
    fn an_older_origin_bounds_what_is_offered() {
        let mut handshake = Handshake::new(Version::new(5, 4));
        let (mut input, mut out) = (opening([MANIFEST, NONE, NONE, NONE]), Vec::new());
        handshake.receive(&mut input, &mut out);
        assert_eq!(out[4..], [2, 0, 3, 4, 4, 0, 4, 4, 5, 0]);
        input.extend_from_slice(&[0, 0, 8, 5, 0]);
        assert_eq!(handshake.receive(&mut input, &mut out), Agreement::Refused(HandshakeRefusal::NoVersion));
    }

    #[test]
    fn other_protocols_are_told_apart_by_their_first_bytes() {
        for (bytes, refusal) in [
            (&[0x16, 0x03, 0x01][..], HandshakeRefusal::Tls),
            (b"GET / HTTP/1.1\r\n", HandshakeRefusal::Http),
            (b"SSH-2.0", HandshakeRefusal::NotBolt),
            (&[0x60, 0x61], HandshakeRefusal::NotBolt),
        ] {
            let answer = Handshake::new(Version::NEWEST).receive(&mut BytesMut::from(bytes), &mut Vec::new());
            assert_eq!(answer, Agreement::Refused(refusal), "{bytes:?}");
        }
        for bytes in [&b""[..], b"G", &MAGIC[..3], &[&MAGIC[..], &[0; 15]].concat()] {
            let answer = Handshake::new(Version::NEWEST).receive(&mut BytesMut::from(bytes), &mut Vec::new());
            assert_eq!(answer, Agreement::Pending, "{bytes:?}");
        }
    }

    #[test]
    fn an_endless_capability_mask_is_refused() {
        let mut handshake = Handshake::new(Version::NEWEST);
        let mut input = opening([MANIFEST, NONE, NONE, NONE]);
        input.extend_from_slice(&[0, 0, 8, 5]);
        input.extend_from_slice(&[0x80; 9]);
        assert_eq!(
            handshake.receive(&mut input, &mut Vec::new()),
            Agreement::Refused(HandshakeRefusal::NotBolt)
        );
    }
}
