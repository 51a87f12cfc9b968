//! The secret of a cluster: its key, and during a rotation two keys. This file seals nothing.
//!
//! Every use has a key of its own, derived from the configured secret and the cluster's name. So nodes of two clusters
//! never understand each other, even with the same secret.
//!
//! **Rotation.** A node proves and seals with one key and accepts two. At every moment any two nodes must accept each
//! other, so a rotation takes three rolling restarts:
//!
//! 1. the old key, and the new key is accepted too;
//! 2. the new key, and the old key is accepted too;
//! 3. the new key alone.
//!
//! With two restarts, a node that seals with the new key would meet a node that does not know this key.

use std::sync::Arc;

use hopcache_config::CLUSTER_NAME_DEFAULT;
use secrecy::{ExposeSecret, SecretBox};

/// Shortest cluster key, in bytes. It is used as it is, without stretching, so it has to be random.
pub const CLUSTER_KEY_BYTES_MIN: usize = 16;
/// Length of the tag that tells under which key a datagram was sealed, in bytes.
pub const GOSSIP_TAG_BYTES: usize = 7;

/// The key that all nodes of a cluster, and only they, hold.
pub struct ClusterKey {
    hello: SecretBox<[u8; 32]>,
    session: SecretBox<[u8; 32]>,
    gossip: SecretBox<[u8; 32]>,
    gossip_tag: [u8; GOSSIP_TAG_BYTES],
}

/// The configured cluster key is too short to protect anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the cluster key has {0} bytes; use at least {CLUSTER_KEY_BYTES_MIN} random ones (openssl rand -hex 32)"
)]
pub struct WeakKey(pub usize);

impl ClusterKey {
    /// From the configured name and key.
    ///
    /// # Errors
    /// [`WeakKey`] when the key has fewer than [`CLUSTER_KEY_BYTES_MIN`] bytes.
    pub fn of(cluster: &str, secret: &[u8]) -> Result<Self, WeakKey> {
        if secret.len() < CLUSTER_KEY_BYTES_MIN {
            return Err(WeakKey(secret.len()));
        }
        Ok(Self::derive(cluster, secret))
    }

    /// A random key that no other node has: for a cluster of one node, whose peer listener then accepts no sender.
    #[must_use]
    pub fn random() -> Self {
        Self::derive(CLUSTER_NAME_DEFAULT, &rand::random::<[u8; 32]>())
    }

    fn derive(cluster: &str, secret: &[u8]) -> Self {
        // The length comes first, so that two pairs of name and key never give the same text.
        let text = SecretBox::new(Box::new(
            [&(cluster.len() as u64).to_be_bytes(), cluster.as_bytes(), secret].concat(),
        ));
        let of = |context: &str| blake3::derive_key(context, text.expose_secret());
        let mut gossip_tag = [0; GOSSIP_TAG_BYTES];
        gossip_tag.copy_from_slice(&of("hopcache gossip tag v1")[..GOSSIP_TAG_BYTES]);
        Self {
            hello: SecretBox::new(Box::new(of("hopcache peer hello v1"))),
            session: SecretBox::new(Box::new(of("hopcache peer session v1"))),
            gossip: SecretBox::new(Box::new(of("hopcache gossip session v1"))),
            gossip_tag,
        }
    }

    pub(super) fn hello(&self) -> &[u8; 32] {
        self.hello.expose_secret()
    }

    pub(super) fn session(&self) -> &[u8; 32] {
        self.session.expose_secret()
    }

    /// The same tag for people: it tells two keys apart.
    pub fn shown_tag(&self) -> String {
        self.gossip_tag.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The key from which keys of gossip sessions are derived.
    pub(crate) fn gossip(&self) -> &[u8; 32] {
        self.gossip.expose_secret()
    }

    /// The tag in clear on datagrams that are sealed under this key. It reveals nothing else about the key.
    pub(crate) const fn gossip_tag(&self) -> [u8; GOSSIP_TAG_BYTES] {
        self.gossip_tag
    }
}

/// The keys that this node accepts: its own, and during a rotation another one.
#[derive(Clone)]
pub struct Keyring {
    own: Arc<ClusterKey>,
    other: Option<Arc<ClusterKey>>,
}

impl Keyring {
    /// The keys of a node that uses `own` and also accepts `other`.
    #[must_use]
    pub fn new(own: Arc<ClusterKey>, other: Option<Arc<ClusterKey>>) -> Self {
        Self { own, other }
    }

    /// The key that this node proves and seals with.
    #[must_use]
    pub fn own(&self) -> &Arc<ClusterKey> {
        &self.own
    }

    /// The accepted keys with their indexes: 0, and during a rotation 1.
    pub fn accepted(&self) -> impl Iterator<Item = (u8, &Arc<ClusterKey>)> {
        std::iter::once((0, &self.own)).chain(self.other.as_ref().map(|other| (1, other)))
    }

    /// The key at an index of [`Keyring::accepted`].
    #[must_use]
    pub fn at(&self, place: u8) -> Option<&Arc<ClusterKey>> {
        self.accepted().find(|(at, _)| *at == place).map(|(_, key)| key)
    }
}

impl From<Arc<ClusterKey>> for Keyring {
    fn from(own: Arc<ClusterKey>) -> Self {
        Self::new(own, None)
    }
}
