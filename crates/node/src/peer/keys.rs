//! What the nodes of a cluster hold and nobody else: its key, and during a rotation two of them.
//!
//! Every use has a key of its own, derived from the configured secret together with the cluster's name, so nodes
//! of two clusters never understand each other, even if somebody gave both one secret. Nothing is sealed here.
//!
//! **Rotation.** A node proves and seals with one key and believes two. So that at every moment any two nodes
//! believe each other, a rotation is three rolling restarts: (1) the old key, the new one believed too; (2) the
//! new key, the old one believed too; (3) the new key alone. With two steps, a node that seals with the new key
//! would meet one that has never heard of it.

use std::sync::Arc;

use secrecy::{ExposeSecret, SecretBox};

/// Shortest cluster key, in bytes. It is used as it is, without stretching, so it has to be random.
pub const CLUSTER_KEY_BYTES_MIN: usize = 16;
/// The name of a cluster that has not been given one.
pub const CLUSTER_NAME_DEFAULT: &str = "hopcache";
/// Length of the mark by which a datagram says under which key it was sealed, in bytes.
pub const GOSSIP_TAG_BYTES: usize = 7;

/// What every node of a cluster holds and nobody else does.
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
    /// From the configured key, for the cluster that has not been given a name.
    ///
    /// # Errors
    /// [`WeakKey`] when it has fewer than [`CLUSTER_KEY_BYTES_MIN`] bytes.
    pub fn from_secret(secret: &[u8]) -> Result<Self, WeakKey> {
        Self::of(CLUSTER_NAME_DEFAULT, secret)
    }

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

    /// A key that no other node has: for a cluster of one, whose peer listener then believes nobody.
    #[must_use]
    pub fn random() -> Self {
        Self::derive(CLUSTER_NAME_DEFAULT, &rand::random::<[u8; 32]>())
    }

    fn derive(cluster: &str, secret: &[u8]) -> Self {
        // The name's length before it, so that no two pairs of name and key give one text.
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

    /// What keys of gossip sessions are derived from.
    pub(crate) fn gossip(&self) -> &[u8; 32] {
        self.gossip.expose_secret()
    }

    /// Stands in clear on datagrams sealed under this key; says nothing else of it.
    pub(crate) const fn gossip_tag(&self) -> [u8; GOSSIP_TAG_BYTES] {
        self.gossip_tag
    }
}

/// The keys that this node believes: the one it uses itself, and during a rotation another.
#[derive(Clone)]
pub struct Keyring {
    own: Arc<ClusterKey>,
    other: Option<Arc<ClusterKey>>,
}

impl Keyring {
    /// A node that uses `own` and believes `other` as well.
    #[must_use]
    pub fn new(own: Arc<ClusterKey>, other: Option<Arc<ClusterKey>>) -> Self {
        Self { own, other }
    }

    /// The key that this node proves and seals with.
    #[must_use]
    pub fn own(&self) -> &Arc<ClusterKey> {
        &self.own
    }

    /// The keys that are believed, by their places: 0, and during a rotation 1.
    pub fn accepted(&self) -> impl Iterator<Item = (u8, &Arc<ClusterKey>)> {
        std::iter::once((0, &self.own)).chain(self.other.as_ref().map(|other| (1, other)))
    }

    /// The key at a place of [`Keyring::accepted`].
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
