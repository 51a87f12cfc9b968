//! The certificate of a listener that is in use now: handshakes read it, and a change of the files replaces it.

use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::ServerConfig;

use super::files::{Contents, Digest, TlsFileError, TlsFiles};

/// The files, and the configuration made from them.
pub(super) struct Current {
    files: TlsFiles,
    alpn: &'static [&'static [u8]],
    config: ArcSwap<ServerConfig>,
}

impl Current {
    /// From the present files; also returns the digest of their content.
    pub(super) fn open(
        files: TlsFiles,
        alpn: &'static [&'static [u8]],
    ) -> Result<(Arc<Self>, Digest), TlsFileError> {
        let contents = files.read()?;
        let config = ArcSwap::from_pointee(files.server_config(&contents, alpn)?);
        Ok((Arc::new(Self { files, alpn, config }), contents.digest()))
    }

    /// The paths of the files.
    pub(super) fn files(&self) -> &TlsFiles {
        &self.files
    }

    /// The configuration for the next handshake.
    pub(super) fn config(&self) -> Arc<ServerConfig> {
        self.config.load_full()
    }

    /// Uses other contents for handshakes from now on.
    pub(super) fn replace(&self, contents: &Contents) -> Result<(), TlsFileError> {
        let config = self.files.server_config(contents, self.alpn)?;
        self.config.store(Arc::new(config));
        Ok(())
    }
}
