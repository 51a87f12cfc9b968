//! The asking identity. The engine carries it to the origin and puts its scope into keys; it never looks inside and
//! never logs it.

use hopcache_core::key::PrincipalScope;

/// Credentials as a client presented them. `Debug` shows the scheme only.
#[derive(Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Credentials {
    /// None were presented.
    None,
    /// HTTP Basic, Bolt scheme `basic`.
    Basic {
        /// Neo4j user name.
        user: String,
        /// Password, in the clear: Bolt's LOGON needs it.
        password: String,
    },
    /// HTTP Bearer, Bolt scheme `bearer`.
    Bearer {
        /// The token.
        token: String,
    },
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self {
            Self::None => "Credentials::None",
            Self::Basic { .. } => "Credentials::Basic(…)",
            Self::Bearer { .. } => "Credentials::Bearer(…)",
        })
    }
}

/// A principal, with everything that the origin needs to run as it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Identity {
    /// Its part in query keys: scheme, user and impersonated user, never the password.
    pub scope: PrincipalScope,
    /// Keyed digest of the whole credentials. Connection pools and the memory of checked credentials use it as their
    /// key, so that a wrong password never meets a connection of the right one.
    pub fingerprint: [u8; 32],
    /// The credentials for the log-on.
    pub credentials: Credentials,
}
