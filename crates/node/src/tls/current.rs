//! The certificate of a listener that is in use now: what handshakes read, and what a change of the files replaces.

use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::ServerConfig;

use super::files::{Contents, Digest, TlsFileError, TlsFiles};

/// The files, and what was made of them.
pub(super) struct Current {
    files: TlsFiles,
    alpn: &'static [&'static [u8]],
    config: ArcSwap<ServerConfig>,
}

impl Current {
    /// From the files as they are; and which content that is.
    pub(super) fn open(
        files: TlsFiles,
        alpn: &'static [&'static [u8]],
    ) -> Result<(Arc<Self>, Digest), TlsFileError> {
        let contents = files.read()?;
        let config = ArcSwap::from_pointee(files.server_config(&contents, alpn)?);
        Ok((Arc::new(Self { files, alpn, config }), contents.digest()))
    }

    /// Where the files are.
    pub(super) fn files(&self) -> &TlsFiles {
        &self.files
    }

    /// For the next handshake.
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
