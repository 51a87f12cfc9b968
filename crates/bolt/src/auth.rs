//! Credentials for LOGON. This file holds the type only; `message` writes it.

use secrecy::SecretString;

/// Credentials for a login. `Debug` never shows a secret.
#[derive(Debug, Clone)]
pub enum Auth {
    /// Scheme `none`, for servers without authentication.
    None,
    /// Scheme `basic`.
    Basic {
        /// User name.
        user: String,
        /// Password.
        password: SecretString,
    },
    /// Scheme `bearer`.
    Bearer {
        /// Token of the identity provider.
        token: SecretString,
    },
}
