//! Certificates are read again when their files change. Established connections are not touched.
//!
//! The files are compared by content, once in [`TLS_RELOAD_MS`]: a directory may be swapped by a link, and a copy may
//! keep its time. A pair that cannot be used changes nothing. Two files are written one after the other, so a bad
//! pair is reported only when the next look finds the same one.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use hopcache_core::limits::TLS_RELOAD_MS;
use tokio::task::JoinError;

use super::current::Current;
use super::files::{Digest, TlsFileError};

/// The result of a change of the files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reload {
    /// New handshakes use the new certificate.
    Used,
    /// The files cannot be used. The certificate before stays in use.
    Refused(TlsFileError),
}

/// The files of one listener, and which of their contents are in use.
pub struct WatchedFiles {
    current: Arc<Current>,
    used: Digest,
    refused: Option<RefusedContent>,
}

/// A content that cannot be used.
struct RefusedContent {
    why: TlsFileError,
    /// `None` if a file could not be read.
    digest: Option<Digest>,
    is_told: bool,
}

impl WatchedFiles {
    pub(super) fn new(current: Arc<Current>, used: Digest) -> Self {
        Self { current, used, refused: None }
    }

    /// Looks at the files again and again. `on_reload` is called for each change.
    pub async fn follow(self, on_reload: impl Fn(&Reload)) -> Infallible {
        let mut watched = self;
        loop {
            tokio::time::sleep(Duration::from_millis(TLS_RELOAD_MS)).await;
            // A file system may hang: no worker waits for it.
            let looked = tokio::task::spawn_blocking(move || (watched.look(), watched)).await;
            let reload;
            (reload, watched) = match looked.map_err(JoinError::try_into_panic) {
                Ok(looked) => looked,
                Err(Ok(panic)) => std::panic::resume_unwind(panic),
                // The runtime ends.
                Err(Err(_)) => std::future::pending().await,
            };
            reload.iter().for_each(&on_reload);
        }
    }

    /// Looks once.
    pub(super) fn look(&mut self) -> Option<Reload> {
        let (digest, replaced) = match self.current.files().read() {
            Err(error) => (None, Err(error)),
            Ok(contents) => {
                let digest = contents.digest();
                if digest == self.used {
                    self.refused = None;
                    return None;
                }
                if let Some(refused) = self.refused.as_mut().filter(|refused| refused.digest == Some(digest))
                {
                    return refused.tell();
                }
                (Some(digest), self.current.replace(&contents))
            }
        };
        match (replaced, digest) {
            (Ok(()), Some(digest)) => {
                self.used = digest;
                self.refused = None;
                Some(Reload::Used)
            }
            (Ok(()), None) => None,
            (Err(why), digest) => {
                if let Some(refused) = self.refused.as_mut().filter(|refused| refused.why == why) {
                    return refused.tell();
                }
                self.refused = Some(RefusedContent { why, digest, is_told: false });
                None
            }
        }
    }
}

impl RefusedContent {
    /// The second look reports it, a later one does not.
    fn tell(&mut self) -> Option<Reload> {
        let is_told = std::mem::replace(&mut self.is_told, true);
        (!is_told).then(|| Reload::Refused(self.why.clone()))
    }
}
