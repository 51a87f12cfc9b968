//! The sender of a request in types of the engine: an identity of its credentials, and its session. All fronts of the
//! node share one `Senders`, so that a user has the same entries over every protocol.
//!
//! Nothing here checks credentials (`crate::credentials` does), and nothing keeps a name or an address.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hopcache_config::{OriginAuth, OriginUri, Settings};
use hopcache_core::key::{KeyHasher, PrincipalScope};
use hopcache_engine::ask::SessionTag;
use hopcache_engine::identity::{Credentials, Identity};
use hopcache_net::client_addr::ClientAddr;
use rand::RngCore as _;

/// Makes identities and sessions.
pub struct Senders {
    hasher: KeyHasher,
    service: Option<Arc<Identity>>,
    fingerprint_key: [u8; 32],
    /// Whether a part of the node learns from sessions. A reload changes it.
    learns: AtomicBool,
    session_key: [u8; 32],
    /// The key that turns an address into a session, if addresses are used. It differs from [`Senders::session_key`], so
    /// that a client cannot choose a session name that equals another client's address.
    fallback_key: Option<[u8; 32]>,
    /// The same for connections. Other nodes, and this one after a restart, have the same numbers of connections.
    connection_key: [u8; 32],
}

impl Senders {
    /// For this configuration.
    #[must_use]
    pub fn new(hasher: &KeyHasher, settings: &Settings) -> Self {
        let secret = settings.cluster.key.as_ref().map_or("", |key| key.expose());
        let derive = |context: &str| blake3::derive_key(context, secret.as_bytes());
        let mut senders = Self {
            hasher: hasher.clone(),
            service: None,
            fingerprint_key: derive("hopcache 2026-11-21 credentials fingerprint"),
            learns: AtomicBool::new(settings.prefetch.enabled),
            session_key: derive("hopcache 2026-11-21 session tag"),
            fallback_key: settings
                .prefetch
                .fallback_sessions
                .then(|| derive("hopcache 2026-11-21 session of an address")),
            connection_key: random_key(),
        };
        if let (OriginAuth::Service { user, password, .. }, OriginUri::Bolt { .. }) =
            (&settings.origin.auth, &settings.origin.uri)
        {
            let credentials =
                Credentials::Basic { user: user.clone(), password: password.expose().to_owned() };
            senders.service = Some(senders.identity_of(credentials, None));
        }
        senders
    }

    /// The identity that has to be accepted before a request is answered: the sender's, or the service user's if all
    /// requests run as that user.
    #[must_use]
    pub fn identity(&self, credentials: Credentials) -> Arc<Identity> {
        match &self.service {
            None => self.identity_of(credentials, None),
            Some(identity) => Arc::clone(identity),
        }
    }

    /// The identity of a request that acts as another user, if it names one. `None` if all requests run as one
    /// service user: otherwise any client could act as any user with the rights of the service user (I5).
    #[must_use]
    pub fn acting(&self, credentials: Credentials, impersonated: Option<&str>) -> Option<Arc<Identity>> {
        match &self.service {
            None => Some(self.identity_of(credentials, impersonated)),
            Some(_) if impersonated.is_some() => None,
            Some(identity) => Some(Arc::clone(identity)),
        }
    }

    /// The password goes into the fingerprint, never into the scope.
    fn identity_of(&self, credentials: Credentials, impersonated: Option<&str>) -> Arc<Identity> {
        let (scheme, user, secret) = match &credentials {
            Credentials::None => ("none", "", ""),
            Credentials::Basic { user, password } => ("basic", user.as_str(), password.as_str()),
            Credentials::Bearer { token } => ("bearer", token.as_str(), ""),
        };
        let mut hasher = blake3::Hasher::new_keyed(&self.fingerprint_key);
        for part in [scheme, user, secret] {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part.as_bytes());
        }
        let scope = PrincipalScope::of(&self.hasher, scheme, user, impersonated);
        Arc::new(Identity { scope, fingerprint: *hasher.finalize().as_bytes(), credentials })
    }

    /// From now on sessions are used, or are not.
    pub fn set_learns(&self, learns: bool) {
        self.learns.store(learns, Ordering::Relaxed);
    }

    fn learns(&self) -> bool {
        self.learns.load(Ordering::Relaxed)
    }

    /// The session of a name that a client has chosen. `None` if no part of the node uses it.
    #[must_use]
    pub fn session_of_name(&self, name: &[u8]) -> Option<SessionTag> {
        self.learns().then(|| tag_of(&blake3::keyed_hash(&self.session_key, name)))
    }

    /// The session of a driver that names none: part `part` of the connection with this number at this node. `None` if no part
    /// of the node uses it.
    #[must_use]
    pub fn session_of_connection(&self, connection: u64, part: u64) -> Option<SessionTag> {
        let of = [connection.to_le_bytes(), part.to_le_bytes()].concat();
        self.learns().then(|| tag_of(&blake3::keyed_hash(&self.connection_key, &of)))
    }

    /// The session of an address, if addresses are used. The node keeps a keyed digest: without the cluster's key no
    /// address can be recovered from it, not even by trying all of them.
    #[must_use]
    pub fn session_of_address(&self, addr: &ClientAddr) -> Option<SessionTag> {
        let key = self.fallback_key.as_ref().filter(|_| self.learns())?;
        Some(addr.session(|addr| {
            let digest = match addr.to_canonical() {
                IpAddr::V4(addr) => blake3::keyed_hash(key, &addr.octets()),
                IpAddr::V6(addr) => blake3::keyed_hash(key, &addr.octets()),
            };
            tag_of(&digest)
        }))
    }
}

fn random_key() -> [u8; 32] {
    let mut key = [0; 32];
    rand::rng().fill_bytes(&mut key);
    key
}

fn tag_of(digest: &blake3::Hash) -> SessionTag {
    SessionTag(digest.as_bytes().first_chunk().copied().unwrap_or_default())
}
