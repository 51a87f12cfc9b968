//! Which authorities may sign a server's certificate, and the fault of a certificate that was refused.

use std::fmt;
use std::io;
use std::sync::{Arc, OnceLock};

use rustls::crypto::CryptoProvider;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{CertificateError, ClientConfig, InvalidMessage, RootCertStore};

use crate::address::Address;
use crate::error::OpenError;

/// The authorities that `bolt+s://` trusts.
#[derive(Clone, Default)]
pub struct Roots(Option<Arc<ClientConfig>>);

impl Roots {
    /// Those of the operating system.
    #[must_use]
    pub fn of_system() -> Self {
        Self(None)
    }

    /// The certificates of a PEM text, and no others.
    ///
    /// # Errors
    /// A sentence that names the error in the text.
    pub fn from_pem(pem: &[u8]) -> Result<Self, String> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(pem) {
            let certificate = certificate.map_err(|error| error.to_string())?;
            roots.add(certificate).map_err(|error| error.to_string())?;
        }
        if roots.is_empty() {
            return Err("there is no certificate in PEM form".to_owned());
        }
        config_of(roots).map(|config| Self(Some(config))).map_err(|error| error.to_string())
    }

    pub(crate) fn config(&self) -> Result<Arc<ClientConfig>, OpenError> {
        self.0.clone().map_or_else(system_config, Ok)
    }
}

impl fmt::Debug for Roots {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(if self.0.is_some() { "Roots(given)" } else { "Roots(system)" })
    }
}

/// Reading the system's roots takes milliseconds of file access, so it happens once.
fn system_config() -> Result<Arc<ClientConfig>, OpenError> {
    static CONFIG: OnceLock<Result<Arc<ClientConfig>, OpenError>> = OnceLock::new();
    let build = || {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if roots.is_empty() {
            let reason = "the operating system has no root certificates (install ca-certificates)";
            return Err(OpenError::Tls(reason.to_owned()));
        }
        config_of(roots)
    };
    CONFIG.get_or_init(build).clone()
}

fn config_of(roots: RootCertStore) -> Result<Arc<ClientConfig>, OpenError> {
    Ok(Arc::new(builder()?.with_root_certificates(roots).with_no_client_auth()))
}

/// Why a handshake failed, and whether the server's certificate is the reason.
pub(crate) fn failed(error: &io::Error, address: &Address) -> OpenError {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    let host = &address.host;
    match inner {
        Some(rustls::Error::InvalidCertificate(why)) => OpenError::Untrusted(match why {
            // Another authority may have the same name. Then its signature does not fit.
            CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                format!("{host}: none of the trusted authorities has signed it")
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                format!("{host}: it is not made for this host name")
            }
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                format!("{host}: it has expired, or a clock is wrong")
            }
            other => format!("{host}: {other:?}"),
        }),
        Some(rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType)) => {
            OpenError::Tls(format!("{host} answers without TLS: use bolt://, or turn TLS on there"))
        }
        _ => OpenError::Tls(error.to_string()),
    }
}

/// TLS with the versions and the provider of this program, without authorities yet.
pub(crate) fn builder() -> Result<rustls::ConfigBuilder<ClientConfig, rustls::WantsVerifier>, OpenError> {
    // The provider is named here and not taken from the process: two providers in one binary would panic there.
    let builder = ClientConfig::builder_with_provider(provider());
    builder.with_safe_default_protocol_versions().map_err(|error| OpenError::Tls(error.to_string()))
}

/// The cryptography of every connection.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}
