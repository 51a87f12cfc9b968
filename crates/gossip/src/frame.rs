//! The format of datagrams: foca's header and members in bytes, and the two kinds of datagram.
//!
//! Reading is total: any bytes are a datagram or an error. The format is explicit and not derived, because other builds
//! read it. Numbers are big endian.
//!
//! ```text
//! datagram   kind 1, header, [count u16, count × member, then (length u16, broadcast) …]
//!            kind 2, identity               "let me in", to an address whose node is not known yet
//! identity   card, rejoins u16, leaving u8
//! header     identity of the sender, its counter u16, identity of the receiver, tag u8, [probe number u8, [identity]]
//! member     identity, counter u16, state u8
//! ```

use bytes::{Buf, BufMut};
use foca::{Header, Member, Message, State};
use hopcache_core::limits::CARD_BYTES_MAX;
use hopcache_core::membership::Card;

use crate::identity::Identity;

/// Length of the kind before a frame.
pub(crate) const KIND_BYTES: usize = 1;
/// A frame of foca follows.
pub(crate) const FOCA_FRAME: u8 = 1;
/// The sender's identity follows.
pub(crate) const ANNOUNCE: u8 = 2;
/// Longest identity.
pub(crate) const IDENTITY_BYTES_MAX: usize = CARD_BYTES_MAX + 3;

/// The bytes do not have the format, or there is no room for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not of the form")]
pub(crate) struct BadFrame;

#[derive(Debug, Clone, Copy)]
pub(crate) struct FrameCodec;

pub(crate) fn put_identity(identity: &Identity, out: &mut Vec<u8>) {
    identity.card.encode(out);
    out.extend_from_slice(&identity.rejoins.to_be_bytes());
    out.push(u8::from(identity.leaving));
}

pub(crate) fn take_identity(bytes: &[u8]) -> Option<(Identity, &[u8])> {
    let (card, rest) = Card::decode(bytes)?;
    let (rejoins, rest) = rest.split_first_chunk()?;
    let (&leaving, rest) = rest.split_first()?;
    let leaving = match leaving {
        0 => false,
        1 => true,
        _ => return None,
    };
    Some((Identity { card, rejoins: u16::from_be_bytes(*rejoins), leaving }, rest))
}

pub(crate) fn put_header(header: &Header<Identity>, out: &mut Vec<u8>) {
    put_identity(&header.src, out);
    out.extend_from_slice(&header.src_incarnation.to_be_bytes());
    put_identity(&header.dst, out);
    let (tag, probe, whom) = match &header.message {
        Message::Ping(probe) => (1, Some(*probe), None),
        Message::Ack(probe) => (2, Some(*probe), None),
        Message::PingReq { target, probe_number } => (3, Some(*probe_number), Some(target)),
        Message::IndirectPing { origin, probe_number } => (4, Some(*probe_number), Some(origin)),
        Message::IndirectAck { target, probe_number } => (5, Some(*probe_number), Some(target)),
        Message::ForwardedAck { origin, probe_number } => (6, Some(*probe_number), Some(origin)),
        Message::Announce => (7, None, None),
        Message::Feed => (8, None, None),
        Message::Gossip => (9, None, None),
        Message::Broadcast => (10, None, None),
        Message::TurnUndead => (11, None, None),
    };
    out.push(tag);
    out.extend(probe);
    if let Some(whom) = whom {
        put_identity(whom, out);
    }
}

pub(crate) fn take_header(bytes: &[u8]) -> Option<(Header<Identity>, &[u8])> {
    let (src, rest) = take_identity(bytes)?;
    let (src_incarnation, rest) = rest.split_first_chunk()?;
    let (dst, rest) = take_identity(rest)?;
    let (message, rest) = take_message(rest)?;
    Some((Header { src, src_incarnation: u16::from_be_bytes(*src_incarnation), dst, message }, rest))
}

fn take_message(bytes: &[u8]) -> Option<(Message<Identity>, &[u8])> {
    let (&tag, rest) = bytes.split_first()?;
    let bare = match tag {
        7 => Some(Message::Announce),
        8 => Some(Message::Feed),
        9 => Some(Message::Gossip),
        10 => Some(Message::Broadcast),
        11 => Some(Message::TurnUndead),
        _ => None,
    };
    if let Some(message) = bare {
        return Some((message, rest));
    }
    let (&probe_number, rest) = rest.split_first()?;
    match tag {
        1 => return Some((Message::Ping(probe_number), rest)),
        2 => return Some((Message::Ack(probe_number), rest)),
        _ => {}
    }
    let (whom, rest) = take_identity(rest)?;
    let message = match tag {
        3 => Message::PingReq { target: whom, probe_number },
        4 => Message::IndirectPing { origin: whom, probe_number },
        5 => Message::IndirectAck { target: whom, probe_number },
        6 => Message::ForwardedAck { origin: whom, probe_number },
        _ => return None,
    };
    Some((message, rest))
}

pub(crate) fn put_member(member: &Member<Identity>, out: &mut Vec<u8>) {
    put_identity(member.id(), out);
    out.extend_from_slice(&member.incarnation().to_be_bytes());
    out.push(match member.state() {
        State::Alive => 1,
        State::Suspect => 2,
        State::Down => 3,
    });
}

pub(crate) fn take_member(bytes: &[u8]) -> Option<(Member<Identity>, &[u8])> {
    let (identity, rest) = take_identity(bytes)?;
    let (counter, rest) = rest.split_first_chunk()?;
    let (&state, rest) = rest.split_first()?;
    let state = match state {
        1 => State::Alive,
        2 => State::Suspect,
        3 => State::Down,
        _ => return None,
    };
    Some((Member::new(identity, u16::from_be_bytes(*counter), state), rest))
}

impl foca::Codec<Identity> for FrameCodec {
    type Error = BadFrame;

    fn encode_header(&mut self, header: &Header<Identity>, buf: impl BufMut) -> Result<(), BadFrame> {
        let mut bytes = Vec::with_capacity(3 * IDENTITY_BYTES_MAX);
        put_header(header, &mut bytes);
        put(&bytes, buf)
    }

    fn decode_header(&mut self, buf: impl Buf) -> Result<Header<Identity>, BadFrame> {
        take(buf, take_header)
    }

    fn encode_member(&mut self, member: &Member<Identity>, buf: impl BufMut) -> Result<(), BadFrame> {
        let mut bytes = Vec::with_capacity(IDENTITY_BYTES_MAX + 3);
        put_member(member, &mut bytes);
        put(&bytes, buf)
    }

    fn decode_member(&mut self, buf: impl Buf) -> Result<Member<Identity>, BadFrame> {
        take(buf, take_member)
    }
}

fn put(bytes: &[u8], mut buf: impl BufMut) -> Result<(), BadFrame> {
    if buf.remaining_mut() < bytes.len() {
        return Err(BadFrame);
    }
    buf.put_slice(bytes);
    Ok(())
}

fn take<T>(mut buf: impl Buf, read: impl Fn(&[u8]) -> Option<(T, &[u8])>) -> Result<T, BadFrame> {
    let bytes = buf.chunk();
    let (item, rest) = read(bytes).ok_or(BadFrame)?;
    let taken = bytes.len() - rest.len();
    buf.advance(taken);
    Ok(item)
}
