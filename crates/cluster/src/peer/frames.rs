//! The frames of a framed connection: their form, their seals, and the order in which they count.
//!
//! ```text
//! length (4 bytes, of the rest) | exchange (8) | kind (1) | sealed message | tag (16)
//! ```
//!
//! Each direction of a connection has a key of its own, which no other connection has (`auth`). The nonce of a frame is
//! its place among the frames of its direction, from 1, and is not sent. So a frame that is repeated, left out, moved,
//! changed, or taken from another connection does not open, and the connection ends. The tag covers the head too.
//!
//! An answer that one frame does not hold goes in parts of `PEER_FRAME_BYTES_MAX` bytes each, and its last frame has the rest
//! ([`PartedAnswer`]). Each part is opened in its turn, as every frame.

use bytes::{Buf, Bytes, BytesMut};
use hopcache_core::limits::{PEER_ANSWER_BYTES_MAX, PEER_FRAME_BYTES_MAX};
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
    /// The node leaves. It has not taken the question, and takes no other on this connection.
    Leaves = 6,
}

impl FrameKind {
    fn of(byte: u8) -> Option<Self> {
        [Self::Question, Self::GivenUp, Self::Part, Self::Answer, Self::Refusal, Self::Leaves]
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

/// What stands before a frame's message. Nothing proves it before the frame is opened.
struct Head {
    exchange: u64,
    kind: FrameKind,
    /// Of the whole frame.
    bytes: usize,
}

impl FrameOpener {
    fn new(key: LessSafeKey) -> Self {
        Self { key, opened: 0 }
    }

    /// Takes the next frame, if all of it was received.
    ///
    /// # Errors
    /// [`AuthError`]. The connection must end then.
    pub fn take(&mut self, received: &mut BytesMut) -> Result<Option<Frame>, AuthError> {
        let Some(Head { exchange, kind, bytes }) = next(received)? else { return Ok(None) };
        self.opened += 1;
        let opened = open(&self.key, self.opened, &mut received[..bytes])?;
        // A copy, so that a small answer that is kept does not keep the memory of all that came with it.
        let message = Bytes::copy_from_slice(opened);
        received.advance(bytes);
        Ok(Some(Frame { exchange, kind, message }))
    }
}

/// How many bytes of the next frame are missing, if its length has come.
pub(super) fn missing_bytes(received: &BytesMut) -> usize {
    let Some(length) = received.first_chunk::<LENGTH_BYTES>() else { return 0 };
    let rest = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX);
    rest.min(FRAME_OVERHEAD_BYTES + PEER_FRAME_BYTES_MAX).saturating_sub(received.len() - LENGTH_BYTES)
}

/// The head of the next frame, if all of the frame was received.
fn next(received: &BytesMut) -> Result<Option<Head>, AuthError> {
    let Some(length) = received.first_chunk::<LENGTH_BYTES>() else { return Ok(None) };
    let rest = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX);
    let least = FRAME_OVERHEAD_BYTES - LENGTH_BYTES;
    if rest < least || rest > least + PEER_FRAME_BYTES_MAX {
        return Err(AuthError::Malformed);
    }
    let bytes = LENGTH_BYTES + rest;
    let Some(frame) = received.get(..bytes) else { return Ok(None) };
    let (exchange, kind) =
        frame[LENGTH_BYTES..HEAD_BYTES].split_first_chunk::<8>().ok_or(AuthError::Malformed)?;
    let kind = kind.first().copied().and_then(FrameKind::of).ok_or(AuthError::Malformed)?;
    Ok(Some(Head { exchange: u64::from_be_bytes(*exchange), kind, bytes }))
}

fn open<'a>(key: &LessSafeKey, place: u64, frame: &'a mut [u8]) -> Result<&'a [u8], AuthError> {
    let (head, body) = frame.split_at_mut(HEAD_BYTES);
    let opened = key.open_in_place(nonce(place), Aad::from(&*head), body);
    opened.map(|message| &*message).map_err(|_| AuthError::Forged)
}

/// An answer in parts.
#[derive(Default)]
pub(super) struct PartedAnswer {
    parts: Vec<Bytes>,
    /// The bytes of all parts.
    bytes: usize,
}

impl PartedAnswer {
    pub(super) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// The bytes of its parts.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Keeps a part. Returns whether it may be one: a part fills its frame, so there are few, and the answer is not too long.
    pub(super) fn keep(&mut self, part: Bytes) -> bool {
        let may_be = part.len() == PEER_FRAME_BYTES_MAX && self.bytes + part.len() <= PEER_ANSWER_BYTES_MAX;
        if may_be {
            self.bytes += part.len();
            self.parts.push(part);
        }
        may_be
    }

    /// The whole answer.
    pub(super) fn join(self, last: &[u8]) -> Bytes {
        let mut answer = Vec::with_capacity(self.bytes + last.len());
        self.parts.iter().for_each(|part| answer.extend_from_slice(part));
        answer.extend_from_slice(last);
        answer.into()
    }
}
