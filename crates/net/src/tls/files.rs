//! The files of a listener's TLS: certificate chain, private key, and authorities of client certificates (PEM). This
//! file decides whether they are usable together, and builds rustls' configuration from them.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hopcache_core::limits::TLS_FILE_BYTES_MAX;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig};

/// Where the certificate of a listener is. Plain data: paths as the process opens them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// Certificates in PEM: the server's own first, then the intermediate ones.
    pub cert_file: PathBuf,
    /// The private key of the first certificate, in PEM, not encrypted.
    pub key_file: PathBuf,
    /// Certificates of the authorities that sign client certificates. With it the listener asks for one.
    pub client_ca_file: Option<PathBuf>,
}

/// Why a listener cannot use its files.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TlsFileError {
    /// A file cannot be read.
    #[error("{path}: cannot be read: {reason}", path = path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        reason: String,
    },
    /// A file has no certificate.
    #[error("{path}: it has no certificate in PEM form (-----BEGIN CERTIFICATE-----)", path = path.display())]
    NoCertificate {
        /// The file.
        path: PathBuf,
    },
    /// A file has no private key.
    #[error(
        "{path}: it has no private key in PEM form (-----BEGIN PRIVATE KEY-----); decrypt an encrypted one first",
        path = path.display()
    )]
    NoKey {
        /// The file.
        path: PathBuf,
    },
    /// Key and certificate are not a pair, or one of them is of a kind that is not supported.
    #[error(
        "{cert} and {key} are no pair: {reason}; the server's own certificate comes first in the file",
        cert = cert.display(), key = key.display()
    )]
    NoPair {
        /// The certificate's file.
        cert: PathBuf,
        /// The key's file.
        key: PathBuf,
        /// Why they do not fit.
        reason: String,
    },
    /// A certificate of an authority is unusable.
    #[error("{path}: {reason}", path = path.display())]
    Authorities {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
}

/// Certificates of authorities, for the servers that this node connects to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Authorities {
    pem: Vec<u8>,
}

impl Authorities {
    /// Reads a file of certificates in PEM.
    ///
    /// # Errors
    /// [`TlsFileError`] names the file and the change to make.
    pub fn read(path: &Path) -> Result<Self, TlsFileError> {
        let pem = read(path)?;
        roots(&pem, path)?;
        Ok(Self { pem })
    }

    /// The file's text.
    #[must_use]
    pub fn pem(&self) -> &[u8] {
        &self.pem
    }
}

/// The present contents of the files. Never shown, because one of them is a private key.
pub(super) struct Contents {
    cert: Vec<u8>,
    key: Vec<u8>,
    client_ca: Option<Vec<u8>>,
}

/// A digest that differs for different contents, without keeping them.
pub(super) type Digest = [u8; 32];

impl TlsFiles {
    /// Checks that a listener could use the files as they are now.
    ///
    /// # Errors
    /// [`TlsFileError`] names the file and the change to make.
    pub fn check(&self) -> Result<(), TlsFileError> {
        self.server_config(&self.read()?, &[]).map(drop)
    }

    pub(super) fn read(&self) -> Result<Contents, TlsFileError> {
        Ok(Contents {
            cert: read(&self.cert_file)?,
            key: read(&self.key_file)?,
            client_ca: self.client_ca_file.as_deref().map(read).transpose()?,
        })
    }

    pub(super) fn server_config(
        &self,
        contents: &Contents,
        alpn: &[&[u8]],
    ) -> Result<ServerConfig, TlsFileError> {
        let no_pair = |error: rustls::Error| TlsFileError::NoPair {
            cert: self.cert_file.clone(),
            key: self.key_file.clone(),
            reason: error.to_string(),
        };
        let chain = certificates(&contents.cert, &self.cert_file)?;
        let no_key = |_: pem::Error| TlsFileError::NoKey { path: self.key_file.clone() };
        let key = PrivateKeyDer::from_pem_slice(&contents.key).map_err(no_key)?;
        // TLS 1.2 and 1.3, and nothing older. The provider is named, because two in one process panic.
        let builder = ServerConfig::builder_with_provider(provider());
        let builder = builder.with_safe_default_protocol_versions().map_err(no_pair)?;
        let builder = match self.client_verifier(contents)? {
            Some(verifier) => builder.with_client_cert_verifier(verifier),
            None => builder.with_no_client_auth(),
        };
        let mut config = builder.with_single_cert(chain, key).map_err(no_pair)?;
        config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
        if contents.client_ca.is_some() {
            // A resumed session keeps its client certificate. So each connection shows one.
            config.session_storage = Arc::new(NoServerSessionStorage {});
            config.send_tls13_tickets = 0;
        }
        Ok(config)
    }

    /// A wrong client certificate fails the handshake. A missing one does not: health probes have none, and the service
    /// refuses the other paths.
    fn client_verifier(
        &self,
        contents: &Contents,
    ) -> Result<Option<Arc<dyn ClientCertVerifier>>, TlsFileError> {
        let (Some(path), Some(pem)) = (&self.client_ca_file, &contents.client_ca) else { return Ok(None) };
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots(pem, path)?), provider());
        let verifier = verifier.allow_unauthenticated().build();
        let unusable = |reason: String| TlsFileError::Authorities { path: path.clone(), reason };
        verifier.map(Some).map_err(|error| unusable(error.to_string()))
    }
}

impl Contents {
    pub(super) fn digest(&self) -> Digest {
        let mut hasher = blake3::Hasher::new();
        for part in [Some(&self.cert), Some(&self.key), self.client_ca.as_ref()].into_iter().flatten() {
            // The length comes first, so that two different contents never give the same text.
            hasher.update(&(part.len() as u64).to_be_bytes()).update(part);
        }
        hasher.finalize().into()
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn certificates(pem: &[u8], path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsFileError> {
    let none = || TlsFileError::NoCertificate { path: path.to_owned() };
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    chain.ok().filter(|chain| !chain.is_empty()).ok_or_else(none)
}

fn roots(pem: &[u8], path: &Path) -> Result<RootCertStore, TlsFileError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(pem, path)? {
        let added = roots.add(certificate);
        let unusable = |error: rustls::Error| TlsFileError::Authorities {
            path: path.to_owned(),
            reason: error.to_string(),
        };
        added.map_err(unusable)?;
    }
    Ok(roots)
}

fn read(path: &Path) -> Result<Vec<u8>, TlsFileError> {
    let unreadable = |reason: String| TlsFileError::Unreadable { path: path.to_owned(), reason };
    let file = std::fs::File::open(path).map_err(|error| unreadable(error.to_string()))?;
    let mut bytes = Vec::new();
    file.take(TLS_FILE_BYTES_MAX + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| unreadable(error.to_string()))?;
    if bytes.len() as u64 > TLS_FILE_BYTES_MAX {
        return Err(unreadable(format!("larger than {TLS_FILE_BYTES_MAX} bytes")));
    }
    Ok(bytes)
}
