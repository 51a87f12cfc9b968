//! How peers prove the cluster key to each other, and keep what they say to themselves.
//!
//! **Scheme.** A session of one sender with one life of one receiver, then one AEAD (ChaCha20-Poly1305)
//! for every message and every answer:
//!
//! ```text
//! sender → receiver   GET /peer/v1/probe   sender, N, MAC(hello key; method, path, sender, N)
//! receiver → sender   B, S, seal(answer key, 0; form, ring epoch, card)
//! sender → receiver   POST …               S, N, counter, sender, seal(request key, counter; message)
//! receiver → sender   status, seal(answer key, counter; answer)
//! ```
//!
//! N: 128 random bits of the sender for this session. B: 128 random bits of the receiver's life. S: a
//! serial number the receiver never gives twice in a life. Request and answer key are derived from
//! cluster key, sender, N, B and S, so each is used in one session, in one direction, and the counter
//! (never repeated in a session) is its nonce: no nonce is ever used twice, without luck.
//!
//! **What the proof covers.** Poly1305's tag is a keyed MAC; it covers method, path, sender, session and
//! counter as associated data, and the body. The answer's tag covers path, status and body, under the
//! nonce of the request it answers, so a stranger on a peer's port can answer nothing, and an answer
//! cannot be moved to another request.
//!
//! **Replay without clocks.** Nodes' clocks may be an hour apart or step (FAULTS F23), so "time" is an
//! order and not a date: the counter within a session ([`super::sessions`] keeps a sliding window as
//! RFC 6479 does), and the serial number between sessions. A receiver that restarts draws a new B, which makes every
//! older message worthless. A replayed greeting gets an answer that only the true sender can open, and
//! leaves no trace in the receiver: a session takes memory only once a message of it has been opened.
//!
//! **What it does not do.** Whoever learns the cluster key can read recorded traffic (no forward
//! secrecy), and every holder of the key can speak as any node: the key is the cluster.

use bytes::{Bytes, BytesMut};
use hopcache_core::limits::CARD_BYTES_MAX;
use hopcache_core::membership::Card;
use hopcache_core::node::NodeName;
use hopcache_core::ring::RingEpoch;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use secrecy::{ExposeSecret, SecretBox};
use subtle::ConstantTimeEq;

use super::PeerPath;

/// Shortest cluster key, in bytes. It is used as it is, without stretching, so it has to be random.
pub const CLUSTER_KEY_BYTES_MIN: usize = 16;
/// Length of an authentication tag, in bytes.
pub const TAG_BYTES: usize = 16;
/// Header that carries the proof of a probe.
pub const HELLO_HEADER: &str = "hopcache-peer";

const VERSION: u8 = 1;
/// Version, serial, N, counter, length of the sender's name.
const HEAD_BYTES: usize = 1 + 8 + 16 + 8 + 1;

/// Begins what a welcome says of its sender. Builds before cards had the incarnation here (random), the epoch
/// and then the bare name: they find a control character in the name and refuse, and are refused by this
/// constant but for one life in 2^64.
const WELCOME_FORM: [u8; 8] = *b"card\0\0\0\x02";

/// What every node of a cluster holds and nobody else does.
pub struct ClusterKey {
    hello: SecretBox<[u8; 32]>,
    session: SecretBox<[u8; 32]>,
}

/// The configured cluster key is too short to protect anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the cluster key has {0} bytes; use at least {CLUSTER_KEY_BYTES_MIN} random ones (openssl rand -hex 32)"
)]
pub struct WeakKey(pub usize);

/// Why a message or answer is not believed. Never told to whoever sent it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AuthError {
    /// Not of the form, or cut short.
    #[error("not a sealed peer message")]
    Malformed,
    /// The session is unknown here: another life of this node, or pushed out by newer ones.
    #[error("no such session")]
    UnknownSession,
    /// The tag does not fit: another key, or changed on the way.
    #[error("the proof of the cluster key does not fit")]
    Forged,
    /// Seen before, or further behind than the window reaches.
    #[error("seen before")]
    Replayed,
    /// Sealed with the cluster key, but by a build that says who it is in another form.
    #[error("the peer's build says who it is in another form; its version does not fit this one")]
    OtherForm,
}

impl AuthError {
    /// One word, for a metric's label.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::UnknownSession => "unknown_session",
            Self::Forged => "forged",
            Self::Replayed => "replayed",
            Self::OtherForm => "other_form",
        }
    }
}

impl ClusterKey {
    /// From the configured key.
    ///
    /// # Errors
    /// [`WeakKey`] when it has fewer than [`CLUSTER_KEY_BYTES_MIN`] bytes.
    pub fn from_secret(secret: &[u8]) -> Result<Self, WeakKey> {
        if secret.len() < CLUSTER_KEY_BYTES_MIN {
            return Err(WeakKey(secret.len()));
        }
        Ok(Self {
            hello: SecretBox::new(Box::new(blake3::derive_key("hopcache peer hello v1", secret))),
            session: SecretBox::new(Box::new(blake3::derive_key("hopcache peer session v1", secret))),
        })
    }

    /// A key that no other node has: for a cluster of one, whose peer listener then believes nobody.
    #[must_use]
    pub fn random() -> Self {
        let secret = rand::random::<[u8; 32]>();
        Self {
            hello: SecretBox::new(Box::new(blake3::derive_key("hopcache peer hello v1", &secret))),
            session: SecretBox::new(Box::new(blake3::derive_key("hopcache peer session v1", &secret))),
        }
    }

    fn hello_mac(&self, sender: &NodeName, nonce: &[u8; 16]) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new_keyed(self.hello.expose_secret());
        for part in [PeerPath::Probe.method(), PeerPath::Probe.as_str(), sender.as_str()] {
            hasher.update(&(part.len() as u64).to_be_bytes()).update(part.as_bytes());
        }
        *hasher.update(nonce).finalize().as_bytes()
    }
}

/// A sender's greeting: who it is, and its random part of the session to come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hello {
    /// Who greets.
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
        let mac = blake3::Hash::from_bytes(key.hello_mac(&self.sender, &self.nonce));
        let nonce = u128::from_be_bytes(self.nonce);
        format!("v{VERSION} {} {nonce:032x} {}", self.sender, mac.to_hex())
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
        let expected = key.hello_mac(&hello.sender, &hello.nonce);
        if bool::from(expected.ct_eq(mac.as_bytes())) { Ok(hello) } else { Err(AuthError::Forged) }
    }
}

/// Who answers a probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerIdentity {
    /// What it says of itself.
    pub card: Card,
    /// Its ring: equal to another node's where both see the same members and weights.
    pub epoch: RingEpoch,
}

/// The two keys of one session.
pub struct SessionKeys {
    request: LessSafeKey,
    answer: LessSafeKey,
}

/// What both ends know of a session in clear.
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
        let mut hasher = blake3::Hasher::new_keyed(key.session.expose_secret());
        hasher.update(&id.nonce).update(&id.boot).update(&id.serial.to_be_bytes());
        hasher.update(sender.as_str().as_bytes());
        let mut keys = [0_u8; 64];
        hasher.finalize_xof().fill(&mut keys);
        let (request, answer) = keys.split_at(32);
        Self { request: aead_key(request), answer: aead_key(answer) }
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
        out.push(VERSION);
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

/// A message as it came, its head read but nothing believed yet.
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
        let sender = sender.filter(|_| *version == VERSION).ok_or(AuthError::Malformed)?;
        let (serial, nonce, counter) = (u64::from_be_bytes(*serial), *nonce, u64::from_be_bytes(*counter));
        let mut body = into_mut(body);
        let head = body.split_to(HEAD_BYTES + name_len);
        Ok(Self { serial, nonce, counter, sender, head, body })
    }
}

/// The receiver's answer to a greeting it believes.
#[must_use]
pub fn seal_welcome(keys: &SessionKeys, id: &SessionId, who: &PeerIdentity) -> Vec<u8> {
    let mut plain = Vec::with_capacity(WELCOME_FORM.len() + 8 + CARD_BYTES_MAX);
    plain.extend_from_slice(&WELCOME_FORM);
    plain.extend_from_slice(&who.epoch.0.to_be_bytes());
    who.card.encode(&mut plain);
    let mut out = Vec::with_capacity(24 + plain.len() + TAG_BYTES);
    out.extend_from_slice(&id.boot);
    out.extend_from_slice(&id.serial.to_be_bytes());
    out.extend_from_slice(&keys.seal_answer(PeerPath::Probe, 0, 200, &plain));
    out
}

/// Opens [`seal_welcome`]: who answered, and the session.
///
/// # Errors
/// [`AuthError::Malformed`] or [`AuthError::Forged`].
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

/// Total: whoever holds the key may still say anything.
fn read_identity(plain: &[u8]) -> Result<PeerIdentity, AuthError> {
    let rest = plain.strip_prefix(&WELCOME_FORM).ok_or(AuthError::OtherForm)?;
    let (epoch, card) = rest.split_first_chunk::<8>().ok_or(AuthError::Malformed)?;
    // What follows the card is a later form's.
    let (card, _) = Card::decode(card).ok_or(AuthError::OtherForm)?;
    Ok(PeerIdentity { card, epoch: RingEpoch(u64::from_be_bytes(*epoch)) })
}

fn request_aad(path: PeerPath, head: &[u8]) -> Vec<u8> {
    [path.method().as_bytes(), b" ", path.as_str().as_bytes(), b"\n", head].concat()
}

fn answer_aad(path: PeerPath, status: u16) -> Vec<u8> {
    [path.as_str().as_bytes(), b"\n", &status.to_be_bytes()].concat()
}

fn aead_key(bytes: &[u8]) -> LessSafeKey {
    // 32 bytes is this cipher's key length, so the only error there is cannot happen.
    match UnboundKey::new(&CHACHA20_POLY1305, bytes) {
        Ok(key) => LessSafeKey::new(key),
        Err(_) => unreachable!("a 32-byte key for ChaCha20-Poly1305"),
    }
}

fn nonce(counter: u64) -> Nonce {
    let mut bytes = [0_u8; 12];
    bytes[4..].copy_from_slice(&counter.to_be_bytes());
    Nonce::assume_unique_for_key(bytes)
}

fn seal(key: &LessSafeKey, counter: u64, aad: &[u8], out: &mut Vec<u8>, body_at: usize) {
    let (_, body) = out.split_at_mut(body_at);
    // The only error is a body of more than 256 GiB; without a tag it would not be believed.
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

/// The same bytes to be opened in place; copied only where somebody else still holds them.
fn into_mut(bytes: Bytes) -> BytesMut {
    bytes.try_into_mut().unwrap_or_else(|shared| BytesMut::from(&shared[..]))
}
