//! How peers prove the cluster key to each other and encrypt their messages.
//!
//! **Scheme.** A session of one sender with one life of one receiver, then one AEAD (ChaCha20-Poly1305)
//! for every message and every answer:
//!
//! ```text
//! sender → receiver   GET /peer/v1/probe   sender, N, MAC(hello key; method, path, sender, N)
//! receiver → sender   B, S, seal(answer key, 0; wire version, ring epoch, card)
//! sender → receiver   POST …               S, N, counter, sender, seal(request key, counter; message)
//! receiver → sender   status, seal(answer key, counter; answer)
//! ```
//!
//! N: 128 random bits of the sender for this session. B: 128 random bits of the receiver's life. S: a
//! serial number the receiver never gives twice in a life. Request and answer key are derived from
//! cluster key, sender, N, B and S, so each is used in one session and in one direction. The counter, which never repeats
//! in a session, is the nonce. So no nonce is ever used twice.
//!
//! **What the proof covers.** Poly1305's tag is a keyed MAC. It covers method, path, sender, session and counter as
//! associated data, and the body. The answer's tag covers path, status and body, under the nonce of its request. So a
//! process without the key on a peer's port cannot answer, and an answer cannot be moved to another request.
//!
//! **Replay without clocks.** Nodes' clocks may be an hour apart or step (FAULTS F23), so "time" is an
//! order and not a date: the counter within a session ([`super::sessions`] keeps a sliding window as
//! RFC 6479 does), and the serial number between sessions. A receiver that restarts draws a new B, which makes every
//! older message invalid. A replayed greeting gets an answer that only the true sender can open, and it leaves no state in
//! the receiver: a session takes memory only after one of its messages was opened.
//!
//! **What it does not do.** There is no forward secrecy: a process that learns the cluster key can read recorded traffic.
//! Every holder of the key can act as any node.

use bytes::{Bytes, BytesMut};
use hopcache_core::membership::Card;
use hopcache_core::node::NodeName;
use hopcache_core::ring::RingEpoch;
use hopcache_core::wire::{WIRE_VERSION, append, from_bytes};
use hopcache_ops::labels::Unauthenticated;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use subtle::ConstantTimeEq;

use super::PeerPath;
use super::frames::FrameKeys;
pub use super::keys::{CLUSTER_KEY_BYTES_MIN, ClusterKey, Keyring, WeakKey};

/// Length of an authentication tag, in bytes.
pub const TAG_BYTES: usize = 16;
/// Header that carries the proof of a probe.
pub const HELLO_HEADER: &str = "hopcache-peer";

/// The protocol that a probe may upgrade its connection to ([`super::frames`]).
pub const FRAMES_PROTOCOL: &str = "hopcache-frames";

/// The version of the seals, which stays when the wire version changes: so nodes of two wire versions can tell each other.
const SEAL_VERSION: u8 = 1;
/// Version, serial, N, counter, length of the sender's name.
const HEAD_BYTES: usize = 1 + 8 + 16 + 8 + 1;

/// Why a message or answer is not authentic. The sender never learns the reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AuthError {
    /// Not in the format, or cut.
    #[error("not a sealed peer message")]
    Malformed,
    /// The session is unknown: it belongs to an earlier life of this node, or newer sessions have evicted it.
    #[error("no such session")]
    UnknownSession,
    /// The tag is wrong: another key, or a changed message.
    #[error("the proof of the cluster key does not fit")]
    Forged,
    /// Seen before, or older than the replay window.
    #[error("seen before")]
    Replayed,
    /// Sealed with the cluster key, by a node of another wire version.
    #[error("it speaks wire version {0}, this node {WIRE_VERSION}: incompatible versions")]
    OtherVersion(u8),
}

impl AuthError {
    /// The label of a metric.
    #[must_use]
    pub const fn label(self) -> Unauthenticated {
        match self {
            Self::Malformed => Unauthenticated::Malformed,
            Self::UnknownSession => Unauthenticated::UnknownSession,
            Self::Forged => Unauthenticated::Forged,
            Self::Replayed => Unauthenticated::Replayed,
            Self::OtherVersion(_) => Unauthenticated::OtherVersion,
        }
    }
}

/// A sender's greeting: its name, and its random part of the new session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hello {
    /// The sender.
    pub sender: NodeName,
    /// Random, for this session.
    pub nonce: [u8; 16],
}

impl Hello {
    /// A greeting for a new session.
    #[must_use]
    pub fn new(sender: NodeName) -> Self {
        Self { sender, nonce: rand::random() }
    }

    /// The value of [`HELLO_HEADER`]: version, sender, nonce and MAC.
    #[must_use]
    pub fn to_header(&self, key: &ClusterKey) -> String {
        let mac = blake3::Hash::from_bytes(hello_mac(key, &self.sender, &self.nonce));
        let nonce = u128::from_be_bytes(self.nonce);
        format!("v{SEAL_VERSION} {} {nonce:032x} {}", self.sender, mac.to_hex())
    }

    /// Reads and verifies [`Hello::to_header`].
    ///
    /// # Errors
    /// [`AuthError::Malformed`] or [`AuthError::Forged`].
    pub fn from_header(text: &str, key: &ClusterKey) -> Result<Self, AuthError> {
        let mut parts = text.split(' ');
        let (Some("v1"), Some(sender), Some(nonce), Some(mac), None) =
            (parts.next(), parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(AuthError::Malformed);
        };
        let sender = NodeName::new(sender).map_err(|_| AuthError::Malformed)?;
        let hex = nonce.len() == 32 && nonce.bytes().all(|byte| byte.is_ascii_hexdigit());
        let nonce = u128::from_str_radix(nonce, 16).ok().filter(|_| hex).ok_or(AuthError::Malformed)?;
        let hello = Self { sender, nonce: nonce.to_be_bytes() };
        let mac = blake3::Hash::from_hex(mac).map_err(|_| AuthError::Malformed)?;
        let expected = hello_mac(key, &hello.sender, &hello.nonce);
        if bool::from(expected.ct_eq(mac.as_bytes())) { Ok(hello) } else { Err(AuthError::Forged) }
    }
}

/// The identity of the node that answers a probe.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct PeerIdentity {
    /// Its ring. It equals another node's ring when both see the same members and weights.
    pub epoch: RingEpoch,
    /// Its card.
    pub card: Card,
}

/// The two keys of one session.
pub struct SessionKeys {
    request: LessSafeKey,
    answer: LessSafeKey,
}

impl FrameKeys {
    /// Derives the keys of the framed connection on which a session was opened. Only this connection has them.
    #[must_use]
    pub fn derive(key: &ClusterKey, sender: &NodeName, id: &SessionId) -> Self {
        // No name has a zero byte, so these keys are no other session's.
        let (questions, answers) = derived(key, sender, id, b"\0frames");
        Self { questions, answers }
    }
}

fn derived(key: &ClusterKey, sender: &NodeName, id: &SessionId, use_of: &[u8]) -> (LessSafeKey, LessSafeKey) {
    let mut hasher = blake3::Hasher::new_keyed(key.session());
    hasher.update(&id.nonce).update(&id.boot).update(&id.serial.to_be_bytes());
    hasher.update(sender.as_str().as_bytes()).update(use_of);
    let mut keys = [0_u8; 64];
    hasher.finalize_xof().fill(&mut keys);
    let (request, answer) = keys.split_at(32);
    (aead_key(request), aead_key(answer))
}

/// The public parts of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionId {
    /// Random part of the sender.
    pub nonce: [u8; 16],
    /// Random part of the receiver's life.
    pub boot: [u8; 16],
    /// Serial number within that life, from 1.
    pub serial: u64,
}

impl SessionKeys {
    /// Derives the keys that `sender` and the receiver use in a session.
    #[must_use]
    pub fn derive(key: &ClusterKey, sender: &NodeName, id: &SessionId) -> Self {
        let (request, answer) = derived(key, sender, id, b"");
        Self { request, answer }
    }

    /// Seals a message: its head in clear (and covered), then the sealed bytes and the tag.
    #[must_use]
    pub fn seal_request(
        &self,
        path: PeerPath,
        sender: &NodeName,
        id: &SessionId,
        counter: u64,
        message: &[u8],
    ) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEAD_BYTES + sender.as_str().len() + message.len() + TAG_BYTES);
        out.push(SEAL_VERSION);
        out.extend_from_slice(&id.serial.to_be_bytes());
        out.extend_from_slice(&id.nonce);
        out.extend_from_slice(&counter.to_be_bytes());
        out.push(u8::try_from(sender.as_str().len()).unwrap_or(u8::MAX));
        out.extend_from_slice(sender.as_str().as_bytes());
        let aad = request_aad(path, &out);
        let body_at = out.len();
        out.extend_from_slice(message);
        seal(&self.request, counter, &aad, &mut out, body_at);
        out
    }

    /// Opens a message sealed by [`SessionKeys::seal_request`].
    ///
    /// # Errors
    /// [`AuthError::Forged`].
    pub fn open_request(&self, path: PeerPath, message: SealedRequest) -> Result<Bytes, AuthError> {
        let aad = request_aad(path, &message.head);
        open(&self.request, message.counter, &aad, message.body)
    }

    /// Seals the answer to the message with this counter.
    #[must_use]
    pub fn seal_answer(&self, path: PeerPath, counter: u64, status: u16, answer: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(answer.len() + TAG_BYTES);
        out.extend_from_slice(answer);
        seal(&self.answer, counter, &answer_aad(path, status), &mut out, 0);
        out
    }

    /// Opens the answer to the message with this counter.
    ///
    /// # Errors
    /// [`AuthError::Forged`].
    pub fn open_answer(
        &self,
        path: PeerPath,
        counter: u64,
        status: u16,
        sealed: Bytes,
    ) -> Result<Bytes, AuthError> {
        open(&self.answer, counter, &answer_aad(path, status), into_mut(sealed))
    }
}

/// A received message whose head was read and whose proof was not checked yet.
#[derive(Debug)]
pub struct SealedRequest {
    /// Serial number of the session it claims.
    pub serial: u64,
    /// Sender's random part of that session.
    pub nonce: [u8; 16],
    /// Its number in the session, from 1.
    pub counter: u64,
    /// Sender it claims.
    pub sender: NodeName,
    head: BytesMut,
    body: BytesMut,
}

impl SealedRequest {
    /// Splits a body into head and sealed bytes.
    ///
    /// # Errors
    /// [`AuthError::Malformed`].
    pub fn read(body: Bytes) -> Result<Self, AuthError> {
        let fixed: &[u8; HEAD_BYTES] = body.first_chunk().ok_or(AuthError::Malformed)?;
        let [version, rest @ ..] = fixed;
        let (serial, rest) = rest.split_first_chunk::<8>().ok_or(AuthError::Malformed)?;
        let (nonce, rest) = rest.split_first_chunk::<16>().ok_or(AuthError::Malformed)?;
        let (counter, rest) = rest.split_first_chunk::<8>().ok_or(AuthError::Malformed)?;
        let name_len = usize::from(rest.first().copied().unwrap_or_default());
        let name = body.get(HEAD_BYTES..HEAD_BYTES + name_len).ok_or(AuthError::Malformed)?;
        let sender = std::str::from_utf8(name).ok().and_then(|name| NodeName::new(name).ok());
        let sender = sender.filter(|_| *version == SEAL_VERSION).ok_or(AuthError::Malformed)?;
        let (serial, nonce, counter) = (u64::from_be_bytes(*serial), *nonce, u64::from_be_bytes(*counter));
        let mut body = into_mut(body);
        let head = body.split_to(HEAD_BYTES + name_len);
        Ok(Self { serial, nonce, counter, sender, head, body })
    }
}

/// The receiver's answer to an authentic greeting.
#[must_use]
pub fn seal_welcome(keys: &SessionKeys, id: &SessionId, who: &PeerIdentity) -> Vec<u8> {
    let plain = append(vec![WIRE_VERSION], who);
    let mut out = Vec::with_capacity(24 + plain.len() + TAG_BYTES);
    out.extend_from_slice(&id.boot);
    out.extend_from_slice(&id.serial.to_be_bytes());
    out.extend_from_slice(&keys.seal_answer(PeerPath::Probe, 0, 200, &plain));
    out
}

/// Opens [`seal_welcome`]. Returns which node answered, and the session.
///
/// # Errors
/// [`AuthError::Malformed`], [`AuthError::Forged`] or [`AuthError::OtherVersion`].
pub fn open_welcome(
    key: &ClusterKey,
    hello: &Hello,
    mut welcome: Bytes,
) -> Result<(PeerIdentity, SessionId, SessionKeys), AuthError> {
    let (boot, rest) = welcome.split_first_chunk::<16>().ok_or(AuthError::Malformed)?;
    let serial = u64::from_be_bytes(*rest.first_chunk::<8>().ok_or(AuthError::Malformed)?);
    let id = SessionId { nonce: hello.nonce, boot: *boot, serial };
    let keys = SessionKeys::derive(key, &hello.sender, &id);
    let plain = keys.open_answer(PeerPath::Probe, 0, 200, welcome.split_off(24))?;
    Ok((read_identity(&plain)?, id, keys))
}

/// Total: a holder of the key may still send any bytes.
fn read_identity(plain: &[u8]) -> Result<PeerIdentity, AuthError> {
    match plain.split_first() {
        Some((&WIRE_VERSION, identity)) => from_bytes(identity).map_err(|_| AuthError::Malformed),
        Some((other, _)) => Err(AuthError::OtherVersion(*other)),
        None => Err(AuthError::Malformed),
    }
}

fn hello_mac(key: &ClusterKey, sender: &NodeName, nonce: &[u8; 16]) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new_keyed(key.hello());
    for part in [PeerPath::Probe.method(), PeerPath::Probe.as_str(), sender.as_str()] {
        hasher.update(&(part.len() as u64).to_be_bytes()).update(part.as_bytes());
    }
    *hasher.update(nonce).finalize().as_bytes()
}

fn request_aad(path: PeerPath, head: &[u8]) -> Vec<u8> {
    [path.method().as_bytes(), b" ", path.as_str().as_bytes(), b"\n", head].concat()
}

fn answer_aad(path: PeerPath, status: u16) -> Vec<u8> {
    [path.as_str().as_bytes(), b"\n", &status.to_be_bytes()].concat()
}

pub(crate) fn aead_key(bytes: &[u8]) -> LessSafeKey {
    // The only error is a wrong key length, and 32 bytes is the length of this cipher's key.
    match UnboundKey::new(&CHACHA20_POLY1305, bytes) {
        Ok(key) => LessSafeKey::new(key),
        Err(_) => unreachable!("a 32-byte key for ChaCha20-Poly1305"),
    }
}

pub(crate) fn nonce(counter: u64) -> Nonce {
    let mut bytes = [0_u8; 12];
    bytes[4..].copy_from_slice(&counter.to_be_bytes());
    Nonce::assume_unique_for_key(bytes)
}

fn seal(key: &LessSafeKey, counter: u64, aad: &[u8], out: &mut Vec<u8>, body_at: usize) {
    let (_, body) = out.split_at_mut(body_at);
    // The only error is a body of more than 256 GiB. Without a tag the receiver refuses it.
    if let Ok(tag) = key.seal_in_place_separate_tag(nonce(counter), Aad::from(aad), body) {
        out.extend_from_slice(tag.as_ref());
    }
}

fn open(key: &LessSafeKey, counter: u64, aad: &[u8], mut body: BytesMut) -> Result<Bytes, AuthError> {
    let opened = key.open_in_place(nonce(counter), Aad::from(aad), &mut body);
    let plain_len = opened.map_err(|_| AuthError::Forged)?.len();
    body.truncate(plain_len);
    Ok(body.freeze())
}

/// The same bytes, to be opened in place. They are copied only when something else still holds them.
fn into_mut(bytes: Bytes) -> BytesMut {
    bytes.try_into_mut().unwrap_or_else(|shared| BytesMut::from(&shared[..]))
}
