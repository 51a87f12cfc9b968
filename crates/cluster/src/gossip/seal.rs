//! Seals and opens gossip datagrams. This file decides which datagrams are authentic, and does not read their content.
//!
//! ```text
//! version · tag of key and cluster · sender's session · counter │ sealed (ChaCha20-Poly1305) · Poly1305's tag
//!    1              7                     16             8      │     …                           16   bytes
//! ```
//!
//! The part left of the bar is in clear, and the proof covers it. The session is 128 random bits of one life of one sender.
//! The key is derived (BLAKE3) from the cluster's key and name and from the session, so two lives never use the same key.
//! The counter never repeats in a life, and is the nonce. During a rotation the tag tells under which of two keys a
//! datagram was sealed, so only one key is tried. It also distinguishes datagrams of another cluster, which are a mistake,
//! from forged ones, which are not.
//!
//! **Memory.** A session takes memory only after one of its datagrams was opened, so bytes without the key cost none. At
//! most [`GOSSIP_SESSIONS_MAX`] sessions are kept, and the least recently heard is evicted first.
//!
//! **Replay.** Within a session a window detects replays (RFC 6479, shared with [`crate::peer::sessions`]). A session that
//! was evicted, or that was heard before this node started, can be replayed, because a datagram answers no challenge of
//! its receiver. A replay can only repeat what was true earlier: gossip judges it by lives and incarnations like any late
//! datagram, and a node is routed to only after it has answered a probe.

use std::num::NonZeroUsize;

use hopcache_core::limits::{
    GOSSIP_DATAGRAM_BYTES_MAX, GOSSIP_SEALED_BYTES_MAX, GOSSIP_SESSIONS_MAX, GOSSIP_WINDOW_MESSAGES,
};
use hopcache_ops::gossip_refusals::GossipRefusal;
use lru::LruCache;
use ring::aead::{Aad, LessSafeKey};

use crate::peer::auth::{ClusterKey, Keyring, TAG_BYTES, aead_key, nonce};
use crate::peer::keys::GOSSIP_TAG_BYTES;
use crate::replay_window::ReplayWindow;

/// Version of this format. Nodes with different versions do not understand each other.
const VERSION: u8 = 1;
const SESSION_BYTES: usize = 16;
const HEAD_BYTES: usize = 1 + GOSSIP_TAG_BYTES + SESSION_BYTES + 8;
/// Bytes that sealing adds to a message.
pub const SEAL_BYTES: usize = HEAD_BYTES + TAG_BYTES;
/// Largest message that fits a datagram, in bytes.
pub const MESSAGE_BYTES_MAX: usize = GOSSIP_SEALED_BYTES_MAX - SEAL_BYTES;
const _: () = assert!(MESSAGE_BYTES_MAX >= GOSSIP_DATAGRAM_BYTES_MAX);

type GossipSessionId = [u8; SESSION_BYTES];

/// Seals the datagrams of this life of this node.
pub struct Sealer {
    key: LessSafeKey,
    tag: [u8; GOSSIP_TAG_BYTES],
    session: GossipSessionId,
    sent: u64,
}

impl Sealer {
    /// A sealer with a session of its own. There is one for each life, and it is never copied.
    #[must_use]
    pub fn new(key: &ClusterKey) -> Self {
        let session = rand::random();
        Self { key: session_key(key, &session), tag: key.gossip_tag(), session, sent: 0 }
    }

    /// The sealed datagram. `None` for a message that fits no datagram.
    pub fn seal(&mut self, message: &[u8]) -> Option<Vec<u8>> {
        if message.len() > MESSAGE_BYTES_MAX {
            return None;
        }
        self.sent = self.sent.checked_add(1)?;
        let mut out = Vec::with_capacity(message.len() + SEAL_BYTES);
        out.push(VERSION);
        out.extend_from_slice(&self.tag);
        out.extend_from_slice(&self.session);
        out.extend_from_slice(&self.sent.to_be_bytes());
        out.extend_from_slice(message);
        let (head, body) = out.split_at_mut(HEAD_BYTES);
        let proof = self.key.seal_in_place_separate_tag(nonce(self.sent), Aad::from(&*head), body).ok()?;
        out.extend_from_slice(proof.as_ref());
        Some(out)
    }
}

/// Opens the datagrams of other nodes.
pub struct Opener {
    keys: Keyring,
    own: GossipSessionId,
    sessions: LruCache<(u8, GossipSessionId), GossipSession>,
}

struct GossipSession {
    key: LessSafeKey,
    window: ReplayWindow,
}

impl Opener {
    /// An opener that accepts these keys, and refuses `own` datagrams that come back.
    #[must_use]
    pub fn new(keys: Keyring, own: &Sealer) -> Self {
        let most = NonZeroUsize::new(GOSSIP_SESSIONS_MAX).unwrap_or(NonZeroUsize::MIN);
        Self { keys, own: own.session, sessions: LruCache::new(most) }
    }

    /// Opens a datagram in place and notes that it was seen.
    ///
    /// # Errors
    /// Why it is refused; nothing is noted then.
    pub fn open<'a>(&mut self, datagram: &'a mut [u8]) -> Result<&'a [u8], GossipRefusal> {
        let Claim { place, session, counter } = self.claim(datagram)?;
        let (head, sealed) = datagram.split_at_mut(HEAD_BYTES);
        let opens = |key: &LessSafeKey, sealed: &'a mut [u8]| {
            let opened = key.open_in_place(nonce(counter), Aad::from(&*head), sealed);
            opened.map(|message| &*message).map_err(|_| GossipRefusal::Forged)
        };
        if let Some(known) = self.sessions.get_mut(&(place, session)) {
            let message = opens(&known.key, sealed)?;
            return if known.window.admit(counter) { Ok(message) } else { Err(GossipRefusal::Replayed) };
        }
        let cluster_key = self.keys.at(place).ok_or(GossipRefusal::Cluster)?;
        let mut fresh = GossipSession {
            key: session_key(cluster_key, &session),
            window: ReplayWindow::of(GOSSIP_WINDOW_MESSAGES),
        };
        let message = opens(&fresh.key, sealed)?;
        if !fresh.window.admit(counter) {
            return Err(GossipRefusal::Replayed);
        }
        self.sessions.put((place, session), fresh);
        Ok(message)
    }

    /// Sessions that take memory now.
    #[must_use]
    pub fn sessions(&self) -> usize {
        self.sessions.len()
    }

    /// The part of a datagram in clear.
    fn claim(&self, datagram: &[u8]) -> Result<Claim, GossipRefusal> {
        if datagram.len() > GOSSIP_SEALED_BYTES_MAX {
            return Err(GossipRefusal::Oversized);
        }
        let (version, rest) = datagram.split_first().ok_or(GossipRefusal::Truncated)?;
        if *version != VERSION {
            return Err(GossipRefusal::Version);
        }
        let (tag, rest) = rest.split_first_chunk::<GOSSIP_TAG_BYTES>().ok_or(GossipRefusal::Truncated)?;
        let (session, rest) = rest.split_first_chunk::<SESSION_BYTES>().ok_or(GossipRefusal::Truncated)?;
        let (counter, sealed) = rest.split_first_chunk::<8>().ok_or(GossipRefusal::Truncated)?;
        if sealed.len() < TAG_BYTES {
            return Err(GossipRefusal::Truncated);
        }
        let known = self.keys.accepted().find(|(_, key)| key.gossip_tag() == *tag);
        let (place, _) = known.ok_or(GossipRefusal::Cluster)?;
        if *session == self.own {
            return Err(GossipRefusal::Own);
        }
        Ok(Claim { place, session: *session, counter: u64::from_be_bytes(*counter) })
    }
}

struct Claim {
    place: u8,
    session: GossipSessionId,
    counter: u64,
}

fn session_key(key: &ClusterKey, session: &GossipSessionId) -> LessSafeKey {
    aead_key(blake3::keyed_hash(key.gossip(), session).as_bytes())
}
