//! Trust of the commands over https: which certificate of a node is accepted, and the message for a refused one.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, anyhow, bail};
use clap::Args;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

/// Which authorities are trusted.
#[derive(Debug, Clone, Default, Args)]
pub(super) struct TrustArgs {
    /// PEM file with the authorities that may sign a node's certificate; default: those of the operating system, and of
    /// the node of this environment its own certificate
    #[arg(long, value_name = "FILE", env = "HOPCACHE_CA_FILE")]
    ca_file: Option<PathBuf>,
}

/// The certificate that is shown to a listener that asks for one.
#[derive(Debug, Clone, Default, Args)]
pub(super) struct CertificateArgs {
    /// PEM file with the certificate to show (node.admin_tls.client_ca_file)
    #[arg(long, value_name = "FILE", env = "HOPCACHE_CERT_FILE", requires = "key_file")]
    cert_file: Option<PathBuf>,
    /// PEM file with its private key
    #[arg(long, value_name = "FILE", env = "HOPCACHE_KEY_FILE", requires = "cert_file")]
    key_file: Option<PathBuf>,
}

/// Which certificates of a node are accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Trust {
    /// Those that an authority of the operating system has signed for the host name.
    System,
    /// Those that an authority of this file has signed for the host name.
    Authorities(PathBuf),
    /// The first certificate of this file and no other, with any name: the node's own, on this machine.
    Own(PathBuf),
    /// Any certificate. For questions without a secret, to a node on this machine.
    Any,
}

impl TrustArgs {
    /// The authorities of the command line, or else `otherwise`.
    pub(super) fn or(&self, otherwise: Trust) -> Trust {
        self.ca_file.clone().map_or(otherwise, Trust::Authorities)
    }
}

impl CertificateArgs {
    fn read(&self) -> anyhow::Result<Option<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)>> {
        let (Some(cert), Some(key)) = (&self.cert_file, &self.key_file) else { return Ok(None) };
        let chain = certificates(cert)?;
        let key = PrivateKeyDer::from_pem_file(key)
            .map_err(|error| anyhow!("--key-file {}: {error}", key.display()))?;
        Ok(Some((chain, key)))
    }
}

impl Trust {
    /// The configuration of TLS for a client.
    pub(super) fn config(&self, own: &CertificateArgs) -> anyhow::Result<ClientConfig> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider));
        let builder = builder.with_safe_default_protocol_versions().context("TLS")?;
        let pinned = |certificate| Arc::new(NodeOnThisMachine { certificate, provider });
        let builder = match self {
            Self::System => builder.with_root_certificates(system_roots()?),
            Self::Authorities(file) => builder.with_root_certificates(roots_of(file)?),
            Self::Own(file) => {
                let certificate = certificates(file)?.into_iter().next();
                builder.dangerous().with_custom_certificate_verifier(pinned(certificate))
            }
            Self::Any => builder.dangerous().with_custom_certificate_verifier(pinned(None)),
        };
        match own.read()? {
            Some((chain, key)) => {
                builder.with_client_auth_cert(chain, key).context("--cert-file and --key-file")
            }
            None => Ok(builder.with_no_client_auth()),
        }
    }

    /// Advice for a failed connection, if TLS is the reason.
    pub(super) fn advice(&self, error: &reqwest::Error) -> Option<String> {
        let why = tls_error(error)?;
        let of = match self {
            Self::System => "the authorities of the operating system".to_owned(),
            Self::Authorities(file) => format!("the authorities of {}", file.display()),
            Self::Own(file) => format!("the certificate in {}", file.display()),
            Self::Any => "any certificate".to_owned(),
        };
        Some(match why {
            rustls::Error::InvalidCertificate(
                CertificateError::UnknownIssuer | CertificateError::BadSignature,
            ) => format!(
                "its certificate is signed by none of {of}: name its authority with --ca-file or HOPCACHE_CA_FILE"
            ),
            rustls::Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure) => {
                format!(
                    "its certificate is not {of}, which node.admin_tls or node.client_tls names; try again in a second if it has just been changed"
                )
            }
            rustls::Error::InvalidCertificate(why) => format!("its certificate is refused: {why}"),
            rustls::Error::InvalidMessage(_) => "it answers without TLS: ask it with http://".to_owned(),
            rustls::Error::AlertReceived(alert) => {
                format!(
                    "it ended the handshake: {alert:?}; does it ask for a certificate (--cert-file, --key-file)?"
                )
            }
            other => other.to_string(),
        })
    }
}

/// The error of TLS below an error of HTTP.
fn tls_error(error: &reqwest::Error) -> Option<&rustls::Error> {
    let mut next = std::error::Error::source(error);
    // Each level wraps the next one, so this ends.
    while let Some(error) = next {
        let inner = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        let found = inner.and_then(|inner| inner.downcast_ref()).or_else(|| error.downcast_ref());
        if found.is_some() {
            return found;
        }
        next = match inner {
            Some(inner) => Some(inner),
            None => error.source(),
        };
    }
    None
}

fn certificates(file: &Path) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let named = || file.display().to_string();
    let chain: Result<Vec<_>, _> = CertificateDer::pem_file_iter(file).with_context(named)?.collect();
    let chain = chain.with_context(named)?;
    if chain.is_empty() {
        bail!("{}: it has no certificate in PEM form (-----BEGIN CERTIFICATE-----)", file.display());
    }
    Ok(chain)
}

fn roots_of(file: &Path) -> anyhow::Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(file)? {
        roots.add(certificate).with_context(|| file.display().to_string())?;
    }
    Ok(roots)
}

fn system_roots() -> anyhow::Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        bail!("the operating system has no authorities (install ca-certificates): name one with --ca-file");
    }
    Ok(roots)
}

/// Accepts one certificate, whatever its name, or any certificate. The handshake's signature is checked, so the other
/// end has the key.
#[derive(Debug)]
struct NodeOnThisMachine {
    certificate: Option<CertificateDer<'static>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for NodeOnThisMachine {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if self.certificate.as_ref().is_some_and(|own| own != end_entity) {
            return Err(CertificateError::ApplicationVerificationFailure.into());
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
