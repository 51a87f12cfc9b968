//! The receiving half of one connection: handshake, then whole messages in order, and whether a RESET waits among them.
//! It reads no more of a message than its kind.
//!
//! It never holds more than its bounds: a caller that does not take requests has to stop reading from the socket.

use std::collections::VecDeque;

use bytes::BytesMut;

use super::chunks::{Chunks, TooLarge};
use super::handshake::{Agreement, Handshake, HandshakeRefusal, Version};
use super::request::{BadRequest, Kind, ReceivedMessage};

/// The bounds of an inbox.
#[derive(Debug, Clone, Copy)]
pub struct InboxBounds {
    /// Largest message.
    pub message_bytes_max: usize,
    /// Largest message before the log-on.
    pub stranger_bytes_max: usize,
    /// Requests that wait.
    pub waiting_max: usize,
    /// Bytes of waiting requests: from this many on no more is read.
    pub waiting_bytes_max: usize,
}

/// Why a connection cannot be read any further.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InboxFault {
    /// No version was agreed on.
    #[error(transparent)]
    Unspoken(#[from] HandshakeRefusal),
    /// A message is over its bound.
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
    /// A message that is not a request.
    #[error(transparent)]
    BadRequest(#[from] BadRequest),
}

/// The receiving half of one connection.
#[derive(Debug)]
pub struct Inbox {
    bounds: InboxBounds,
    handshake: Option<Handshake>,
    version: Option<Version>,
    input: BytesMut,
    chunks: Chunks,
    waiting: VecDeque<ReceivedMessage>,
    waiting_bytes: usize,
    resets: usize,
    is_stranger: bool,
    fault: Option<InboxFault>,
}

impl Inbox {
    /// An inbox that awaits a handshake.
    #[must_use]
    pub fn new(newest: Version, bounds: InboxBounds) -> Self {
        Self {
            bounds,
            handshake: Some(Handshake::new(newest)),
            version: None,
            input: BytesMut::new(),
            chunks: Chunks::default(),
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            resets: 0,
            is_stranger: true,
            fault: None,
        }
    }

    /// Takes bytes from the socket. Bytes to send for the handshake are appended to `out`.
    pub fn receive(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        if self.fault.is_some() {
            return;
        }
        self.input.extend_from_slice(bytes);
        if let Err(fault) = self.read(out) {
            self.fault = Some(fault);
            self.forget_begun();
        }
    }

    fn read(&mut self, out: &mut Vec<u8>) -> Result<(), InboxFault> {
        if let Some(handshake) = &mut self.handshake {
            match handshake.receive(&mut self.input, out) {
                Agreement::Pending => return Ok(()),
                Agreement::Refused(why) => return Err(why.into()),
                Agreement::On(version) => {
                    self.version = Some(version);
                    self.handshake = None;
                }
            }
        }
        self.read_requests()
    }

    fn read_requests(&mut self) -> Result<(), InboxFault> {
        while self.waiting.len() < self.bounds.waiting_max {
            let InboxBounds { message_bytes_max, stranger_bytes_max, .. } = self.bounds;
            let limit = if self.is_stranger { stranger_bytes_max } else { message_bytes_max };
            let Some(message) = self.chunks.next(&mut self.input, limit)? else { return Ok(()) };
            let received = ReceivedMessage::new(message)?;
            self.resets += usize::from(received.kind == Kind::Reset);
            self.waiting_bytes += received.message.len();
            self.waiting.push_back(received);
        }
        Ok(())
    }

    /// The version, once it is agreed on.
    #[must_use]
    pub fn version(&self) -> Option<Version> {
        self.version
    }

    /// The next request. Requests that came before a fault are given first.
    ///
    /// # Errors
    /// [`InboxFault`], when no request waits any more.
    pub fn next_request(&mut self) -> Result<Option<ReceivedMessage>, InboxFault> {
        let Some(next) = self.waiting.pop_front() else {
            return match &self.fault {
                Some(fault) => Err(fault.clone()),
                None => Ok(None),
            };
        };
        self.waiting_bytes -= next.message.len();
        self.resets -= usize::from(next.kind == Kind::Reset);
        if self.fault.is_none()
            && let Err(fault) = self.read_requests()
        {
            self.fault = Some(fault);
            self.forget_begun();
        }
        Ok(Some(next))
    }

    /// The request that [`Inbox::next_request`] gives next, if it is whole.
    #[must_use]
    pub fn peek(&self) -> Option<&ReceivedMessage> {
        self.waiting.front()
    }

    /// Whether a RESET waits. If so, all requests before it are to be ignored.
    #[must_use]
    pub fn has_reset(&self) -> bool {
        self.resets > 0
    }

    /// Whether there is room for more. If not, the caller must not read from the socket until it has taken requests.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.fault.is_none()
            && self.waiting.len() < self.bounds.waiting_max
            && self.waiting_bytes < self.bounds.waiting_bytes_max
    }

    /// Drops a message that is not whole yet. After it the bytes that come mean nothing: nothing more may be received.
    pub fn forget_begun(&mut self) {
        (self.input, self.chunks) = (BytesMut::new(), Chunks::default());
    }

    /// Bytes of a message that is not whole yet.
    #[must_use]
    pub fn begun_bytes(&self) -> usize {
        self.input.len() + self.chunks.begun_bytes()
    }

    /// Bytes that are held.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.begun_bytes() + self.waiting_bytes
    }

    /// The client has logged on, or off. It decides which bound of a message holds.
    pub fn set_stranger(&mut self, is_stranger: bool) {
        self.is_stranger = is_stranger;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::server::chunks::frame;

    const BOUNDS: InboxBounds = InboxBounds {
        message_bytes_max: 4_096,
        stranger_bytes_max: 256,
        waiting_max: 4,
        waiting_bytes_max: 8_192,
    };
    const OPENING: [u8; 20] = [0x60, 0x60, 0xB0, 0x17, 0, 8, 8, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

    fn framed(messages: &[&[u8]]) -> Vec<u8> {
        let mut out = Vec::new();
        messages.iter().for_each(|message| frame(&mut out, message));
        out
    }

    #[test]
    fn requests_come_in_order_behind_the_handshake_however_the_bytes_are_cut() {
        let sent = [&OPENING[..], &framed(&[&[0xB1, 0x01, 0xA0], &[0xB0, 0x0F], &[0xB0, 0x02]])].concat();
        for step in 1..=sent.len() {
            let (mut inbox, mut out) = (Inbox::new(Version::NEWEST, BOUNDS), Vec::new());
            sent.chunks(step).for_each(|part| inbox.receive(part, &mut out));
            assert_eq!((out.as_slice(), inbox.version()), (&[0, 0, 8, 5][..], Some(Version::new(5, 8))));
            assert!(inbox.has_reset());
            let kinds: Vec<Kind> =
                std::iter::from_fn(|| inbox.next_request().unwrap()).map(|received| received.kind).collect();
            assert_eq!(kinds, [Kind::Hello, Kind::Reset, Kind::Goodbye]);
            assert!(!inbox.has_reset() && inbox.held_bytes() == 0);
        }
    }

    #[test]
    fn what_came_before_a_fault_is_given_first() {
        let (mut inbox, mut out) = (Inbox::new(Version::NEWEST, BOUNDS), Vec::new());
        inbox.receive(&[&OPENING[..], &framed(&[&[0xB0, 0x0F], &[0xB0, 0x77]])].concat(), &mut out);
        assert_eq!(inbox.next_request().unwrap().unwrap().kind, Kind::Reset);
        assert_eq!(inbox.next_request(), Err(InboxFault::BadRequest(BadRequest::Unknown(0x77))));
        assert!(!inbox.has_room());
    }

    #[test]
    fn a_stranger_sends_small_messages_only() {
        let large = framed(&[&[&[0xB1, 0x01, 0xD0, 0xFF][..], &[b'x'; 255]].concat()]);
        for (is_stranger, refused) in [(true, true), (false, false)] {
            let (mut inbox, mut out) = (Inbox::new(Version::NEWEST, BOUNDS), Vec::new());
            inbox.receive(&OPENING, &mut out);
            inbox.set_stranger(is_stranger);
            inbox.receive(&large, &mut out);
            assert_eq!(matches!(inbox.next_request(), Err(InboxFault::TooLarge(_))), refused);
        }
    }

    #[test]
    fn a_flood_stops_the_reading() {
        let (mut inbox, mut out) = (Inbox::new(Version::NEWEST, BOUNDS), Vec::new());
        inbox.receive(&OPENING, &mut out);
        inbox.receive(&framed(&[&[0xB0, 0x0F][..]; 9]), &mut out);
        assert!(!inbox.has_room());
        for _ in 0..9 {
            assert_eq!(inbox.next_request().unwrap().unwrap().kind, Kind::Reset);
        }
        assert_eq!(inbox.next_request(), Ok(None));
        assert!(inbox.has_room());
    }

    proptest! {
        /// I13, I9: any bytes in any pieces, with and without a handshake before them.
        #[test]
        fn any_bytes_are_bounded(
            bytes in proptest::collection::vec(any::<u8>(), 0..3_000),
            step in 1_usize..700,
            opened in any::<bool>(),
        ) {
            let (mut inbox, mut out) = (Inbox::new(Version::NEWEST, BOUNDS), Vec::new());
            if opened {
                inbox.receive(&OPENING, &mut out);
                inbox.set_stranger(false);
            }
            for part in bytes.chunks(step) {
                if inbox.has_room() {
                    inbox.receive(part, &mut out);
                }
                prop_assert!(inbox.held_bytes() <= BOUNDS.waiting_bytes_max + 2 * BOUNDS.message_bytes_max + step);
                if step % 3 == 0 {
                    let _ = inbox.next_request();
                }
            }
            prop_assert!(out.len() <= 32);
        }
    }
}
