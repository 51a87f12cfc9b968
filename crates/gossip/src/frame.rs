//! The format of datagrams: two kinds, and foca's header and members by serde and postcard.
//!
//! Reading is total: any bytes are a datagram or an error.
//!
//! ```text
//! datagram   kind 1, wire version, header, [count u16, count × member, then (length u16, broadcast) …]
//!            kind 2, wire version, identity       "let me in", to an address whose node is not known yet
//! ```
//!
//! Kind and version stay where they are in every version, so that a node can say which version another one speaks.

use hopcache_core::wire::{WIRE_VERSION, append};

use crate::effect::DatagramRefusal;
use crate::identity::Identity;

/// A frame of foca follows.
const FOCA_FRAME: u8 = 1;
/// The sender's identity follows.
const ANNOUNCE: u8 = 2;
/// Kind and wire version.
pub(crate) const HEAD_BYTES: usize = 2;

/// What a datagram has behind its head.
pub(crate) enum Frame<'a> {
    /// A frame of foca.
    Foca(&'a [u8]),
    /// The sender's identity.
    Announcement(&'a [u8]),
}

impl<'a> Frame<'a> {
    pub(crate) fn read(datagram: &'a [u8]) -> Result<Self, DatagramRefusal> {
        match datagram {
            [FOCA_FRAME, WIRE_VERSION, frame @ ..] => Ok(Self::Foca(frame)),
            [ANNOUNCE, WIRE_VERSION, identity @ ..] => Ok(Self::Announcement(identity)),
            [FOCA_FRAME | ANNOUNCE, version, ..] => Err(DatagramRefusal::Incompatible(*version)),
            _ => Err(DatagramRefusal::Malformed),
        }
    }
}

/// A datagram with a frame of foca.
pub(crate) fn foca_frame(frame: &[u8]) -> Vec<u8> {
    [&[FOCA_FRAME, WIRE_VERSION], frame].concat()
}

/// A datagram of a node that asks to be let in.
pub(crate) fn announcement(me: &Identity) -> Vec<u8> {
    append(vec![ANNOUNCE, WIRE_VERSION], me)
}
