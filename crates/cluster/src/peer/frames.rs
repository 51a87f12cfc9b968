//! The frames of a framed connection: their form, their seals, and the order in which they count.
//!
//! ```text
//! length (4 bytes, of the rest) | exchange (8) | kind (1) | sealed message | tag (16)
//! ```
//!
//! Each direction of a connection has a key of its own, which no other connection has (`auth`). The nonce of a frame is
//! its place among the frames of its direction, from 1, and is not sent. So a frame that is repeated, left out, moved,
//! changed, or taken from another connection does not open, and the connection ends. The tag covers the head too.

use bytes::{Buf, Bytes, BytesMut};
use hopcache_core::limits::PEER_FRAME_BYTES_MAX;
use ring::aead::{Aad, LessSafeKey};

use super::auth::{AuthError, TAG_BYTES, nonce};

const LENGTH_BYTES: usize = 4;
const HEAD_BYTES: usize = LENGTH_BYTES + 8 + 1;
/// What a frame adds to its message.
pub(super) const FRAME_OVERHEAD_BYTES: usize = HEAD_BYTES + TAG_BYTES;

/// What a frame carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameKind {
    /// A question, whole.
    Question = 1,
    /// The sender of this question no longer waits for its answer.
    GivenUp = 2,
    /// A part of an answer; more comes.
    Part = 3,
    /// An answer, or its last part.
    Answer = 4,
    /// Why there is no answer: a text.
    Refusal = 5,
}

impl FrameKind {
    fn of(byte: u8) -> Option<Self> {
        [Self::Question, Self::GivenUp, Self::Part, Self::Answer, Self::Refusal]
            .into_iter()
            .find(|kind| *kind as u8 == byte)
    }
}

/// An opened frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// The question's number on its connection.
    pub exchange: u64,
    /// What it carries.
    pub kind: FrameKind,
    /// Its message, in memory of its own.
    pub message: Bytes,
}

/// The two keys of a framed connection.
pub struct FrameKeys {
    pub(super) questions: LessSafeKey,
    pub(super) answers: LessSafeKey,
}

impl FrameKeys {
    /// The ends of the side that asks.
    #[must_use]
    pub fn asking(self) -> (FrameSealer, FrameOpener) {
        (FrameSealer::new(self.questions), FrameOpener::new(self.answers))
    }

    /// The ends of the side that answers.
    #[must_use]
    pub fn answering(self) -> (FrameSealer, FrameOpener) {
        (FrameSealer::new(self.answers), FrameOpener::new(self.questions))
    }
}

/// Seals the frames of one direction. They must be sent in the order in which they were sealed.
pub struct FrameSealer {
    key: LessSafeKey,
    sealed: u64,
}

impl FrameSealer {
    const fn new(key: LessSafeKey) -> Self {
        Self { key, sealed: 0 }
    }

    /// Appends a frame. A message has at most [`PEER_FRAME_BYTES_MAX`] bytes; the other end refuses a longer one.
    pub fn append(&mut self, exchange: u64, kind: FrameKind, message: &[u8], out: &mut Vec<u8>) {
        let frame_at = out.len();
        let rest = FRAME_OVERHEAD_BYTES - LENGTH_BYTES + message.len();
        out.reserve(LENGTH_BYTES + rest);
        out.extend_from_slice(&u32::try_from(rest).unwrap_or(u32::MAX).to_be_bytes());
        out.extend_from_slice(&exchange.to_be_bytes());
        out.push(kind as u8);
        out.extend_from_slice(message);
        self.sealed += 1;
        let (head, body) = out[frame_at..].split_at_mut(HEAD_BYTES);
        // The only error is a body of more than 256 GiB. Without a tag the receiver refuses it.
        if let Ok(tag) = self.key.seal_in_place_separate_tag(nonce(self.sealed), Aad::from(&*head), body) {
            out.extend_from_slice(tag.as_ref());
        }
    }
}

/// Opens the frames of one direction, in the order in which they were sealed.
pub struct FrameOpener {
    key: LessSafeKey,
    opened: u64,
}

impl FrameOpener {
    const fn new(key: LessSafeKey) -> Self {
        Self { key, opened: 0 }
    }

    /// Takes the next frame, if all of it was received.
    ///
    /// # Errors
    /// [`AuthError`]. The connection must end then.
    pub fn take(&mut self, received: &mut BytesMut) -> Result<Option<Frame>, AuthError> {
        let Some(length) = received.first_chunk::<LENGTH_BYTES>() else { return Ok(None) };
        let rest = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX);
        let least = FRAME_OVERHEAD_BYTES - LENGTH_BYTES;
        if rest < least || rest > least + PEER_FRAME_BYTES_MAX {
            return Err(AuthError::Malformed);
        }
        let Some(frame) = received.get_mut(..LENGTH_BYTES + rest) else { return Ok(None) };
        let (head, body) = frame.split_at_mut(HEAD_BYTES);
        let (exchange, kind) = head[LENGTH_BYTES..].split_first_chunk::<8>().ok_or(AuthError::Malformed)?;
        let exchange = u64::from_be_bytes(*exchange);
        let kind = kind.first().copied().and_then(FrameKind::of).ok_or(AuthError::Malformed)?;
        self.opened += 1;
        let opened = self.key.open_in_place(nonce(self.opened), Aad::from(&*head), body);
        // A copy, so that a small answer that is kept does not keep the memory of all that came with it.
        let message = Bytes::copy_from_slice(opened.map_err(|_| AuthError::Forged)?);
        received.advance(LENGTH_BYTES + rest);
        Ok(Some(Frame { exchange, kind, message }))
    }
}
