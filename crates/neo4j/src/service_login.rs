//! This node's own login, if all clients' statements run as one user (`origin.auth = "service"`): the password in use, and
//! the one that its file has now. This file decides which of the two is used. It opens one connection for each new content
//! of the file, and answers no request.
//!
//! A password is rotated in two steps, in Neo4j and in the file, in either order. So a new content of the file is tried
//! once, apart from all runs, and is used if Neo4j accepts it. If Neo4j refuses it, the former password stays in use.
//! When Neo4j refuses the password in use, the other one takes its place, and the pace of
//! [`Refusal`](super::own_login::Refusal) decides when it is tried: three wrong passwords in a row lock the user out.

use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hopcache_bolt::{Address, Auth, Connection, Failure, OpenError, Options};
use hopcache_config::read_secret;
use hopcache_core::limits::ORIGIN_PASSWORD_FILE_MS;
use hopcache_engine::identity::Credentials;
use hopcache_engine::ports::Neo4jFailure;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::fault;
use super::own_login::Refusal;
use super::pools::Fingerprint;

/// The login that this node uses for all clients.
pub struct ServiceLogin {
    user: String,
    file: Option<PathBuf>,
    passwords: Mutex<Passwords>,
    /// Neo4j's refusal of the password in use.
    refusal: Refusal,
    was_refused: Notify,
}

struct Passwords {
    used: Credentials,
    /// Another one: of the file, which Neo4j has refused, or the one before.
    other: Option<Credentials>,
    /// Changes of `used`. Connections of a former password are not lent any more.
    changes: u64,
}

impl std::fmt::Debug for ServiceLogin {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("ServiceLogin").field("user", &self.user).finish_non_exhaustive()
    }
}

impl ServiceLogin {
    /// Credentials that never change.
    #[must_use]
    pub fn fixed(credentials: Credentials) -> Self {
        let user = match &credentials {
            Credentials::Basic { user, .. } => user.clone(),
            _ => String::new(),
        };
        Self {
            user,
            file: None,
            passwords: Mutex::new(Passwords { used: credentials, other: None, changes: 0 }),
            refusal: Refusal::default(),
            was_refused: Notify::new(),
        }
    }

    /// A user, and the password that its file has had at the start.
    #[must_use]
    pub fn in_file(user: String, password: String, file: PathBuf) -> Self {
        Self { file: Some(file), ..Self::fixed(Credentials::Basic { user, password }) }
    }

    pub(super) fn credentials(&self) -> Credentials {
        self.passwords.lock().used.clone()
    }

    pub(super) fn has_none(&self) -> bool {
        self.passwords.lock().used == Credentials::None
    }

    /// Of the password in use. A connection is lent for an equal one only.
    pub(super) fn fingerprint(&self) -> Fingerprint {
        let mut fingerprint = [0; 32];
        fingerprint[..8].copy_from_slice(&self.passwords.lock().changes.to_le_bytes());
        fingerprint
    }

    pub(super) fn refusal(&self) -> &Refusal {
        &self.refusal
    }

    /// Neo4j refused a log-on with the password of this fingerprint. If the password has changed meanwhile, this says nothing
    /// about the new one.
    pub(super) fn refused(&self, whose: &Fingerprint, failure: &Neo4jFailure) {
        if *whose != self.fingerprint() {
            return;
        }
        self.refusal.refused(failure);
        if fault::is_credential_refusal(failure) {
            self.passwords.lock().swap();
        }
        self.was_refused.notify_one();
    }

    /// Uses a new content of the password file as soon as Neo4j accepts it. The caller owns the task.
    pub(super) async fn follow(self: Arc<Self>, address: Address, options: Options) -> Infallible {
        loop {
            let pause = Duration::from_millis(ORIGIN_PASSWORD_FILE_MS);
            let _ = timeout(pause, self.was_refused.notified()).await;
            let Some(found) = self.found().await else { continue };
            match Connection::open(&address, &auth_of(&found), &options).await {
                Ok(connection) => {
                    connection.close().await;
                    self.accepted(found);
                }
                Err(OpenError::Refused(Failure { code, message, .. })) => {
                    self.turned_down(found, &Neo4jFailure { code, message, as_sent: Vec::new() });
                }
                Err(error) => tracing::debug!(%error, "a new password is tried again"),
            }
        }
    }

    /// A content of the file that was not tried yet. A file that cannot be read is being replaced.
    async fn found(&self) -> Option<Credentials> {
        let file = self.file.clone()?;
        // A file system may hang: no worker waits for it.
        let password = spawn_blocking(move || read_secret(&file)).await.ok()?;
        let password = match password {
            Ok(password) if !password.is_empty() => password,
            Ok(_) => return None,
            Err(error) => {
                tracing::debug!(error, "origin.password_file");
                return None;
            }
        };
        let found = Credentials::Basic { user: self.user.clone(), password };
        let passwords = self.passwords.lock();
        (found != passwords.used && Some(&found) != passwords.other.as_ref()).then_some(found)
    }

    fn accepted(&self, found: Credentials) {
        tracing::info!("Neo4j takes the new content of origin.password_file, which is used from now on");
        let mut passwords = self.passwords.lock();
        (passwords.used, passwords.other) = (found, None);
        passwords.changes += 1;
        self.refusal.ended();
    }

    fn turned_down(&self, found: Credentials, failure: &Neo4jFailure) {
        let error = &failure.code;
        tracing::warn!(
            error,
            "Neo4j refuses the new content of origin.password_file; the former stays in use"
        );
        // A user that is locked out for some seconds says nothing about a password: it is tried again.
        if fault::is_credential_refusal(failure) {
            self.passwords.lock().other = Some(found);
        }
    }
}

/// Credentials in the form of a log-on.
pub(super) fn auth_of(credentials: &Credentials) -> Auth {
    match credentials {
        Credentials::None => Auth::None,
        Credentials::Basic { user, password } => {
            Auth::Basic { user: user.clone(), password: password.clone().into() }
        }
        Credentials::Bearer { token } => Auth::Bearer { token: token.clone().into() },
    }
}

impl Passwords {
    fn swap(&mut self) {
        if let Some(other) = &mut self.other {
            std::mem::swap(&mut self.used, other);
            self.changes += 1;
        }
    }
}
