//! A certificate authority of one test, and the certificates it signs, as PEM files.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};
use rustls::client::{Resumption, WantsClientCert};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ConfigBuilder, RootCertStore, SupportedProtocolVersion};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Signs certificates.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    /// Its own certificate.
    pub ca_file: PathBuf,
}

/// A certificate and its key.
#[derive(Debug, Clone)]
pub struct Pair {
    pub cert_file: PathBuf,
    pub key_file: PathBuf,
}

impl Pair {
    /// As a table of a configuration.
    pub fn toml(&self) -> String {
        format!("{{ cert_file = {:?}, key_file = {:?} }}", self.cert_file, self.key_file)
    }

    /// Puts another pair's content under this pair's names, the certificate first.
    pub fn replace_with(&self, other: &Self) {
        std::fs::copy(&other.cert_file, &self.cert_file).unwrap();
        std::fs::copy(&other.key_file, &self.key_file).unwrap();
    }
}

impl Authority {
    /// A new authority, whose certificate is in `dir`.
    pub fn new(dir: &Path, name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let ca_file = dir.join(format!("{name}.ca.pem"));
        std::fs::write(&ca_file, issuer.pem()).unwrap();
        Self { issuer, ca_file }
    }

    /// A server's certificate for this machine: `localhost` and 127.0.0.1.
    pub fn server(&self, dir: &Path, name: &str) -> Pair {
        self.sign(dir, name, (&["localhost", "127.0.0.1"], ExtendedKeyUsagePurpose::ServerAuth))
    }

    /// A server's certificate for other hosts.
    pub fn server_elsewhere(&self, dir: &Path, name: &str) -> Pair {
        self.sign(dir, name, (&["elsewhere.test"], ExtendedKeyUsagePurpose::ServerAuth))
    }

    /// An operator's certificate.
    pub fn client(&self, dir: &Path, name: &str) -> Pair {
        self.sign(dir, name, (&[name], ExtendedKeyUsagePurpose::ClientAuth))
    }

    fn sign(&self, dir: &Path, name: &str, (hosts, usage): (&[&str], ExtendedKeyUsagePurpose)) -> Pair {
        let hosts: Vec<String> = hosts.iter().map(ToString::to_string).collect();
        let mut params = CertificateParams::new(hosts).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![usage];
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let pair = Pair {
            cert_file: dir.join(format!("{name}.cert.pem")),
            key_file: dir.join(format!("{name}.key.pem")),
        };
        std::fs::write(&pair.cert_file, certificate.pem()).unwrap();
        std::fs::write(&pair.key_file, key.serialize_pem()).unwrap();
        pair
    }

    /// A client that trusts this authority alone.
    pub fn tls_client(&self, versions: &[&'static SupportedProtocolVersion], alpn: &[&[u8]]) -> TlsClient {
        let mut config = self.trusting(versions).with_no_client_auth();
        config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
        TlsClient::of(config)
    }

    /// A client that shows a certificate, if it has one.
    pub fn tls_client_showing(&self, own: Option<&Pair>) -> TlsClient {
        let builder = self.trusting(rustls::ALL_VERSIONS);
        TlsClient::of(match own {
            None => builder.with_no_client_auth(),
            Some(pair) => {
                let chain = vec![CertificateDer::from_pem_file(&pair.cert_file).unwrap()];
                let key = PrivateKeyDer::from_pem_file(&pair.key_file).unwrap();
                builder.with_client_auth_cert(chain, key).unwrap()
            }
        })
    }

    fn trusting(
        &self,
        versions: &[&'static SupportedProtocolVersion],
    ) -> ConfigBuilder<ClientConfig, WantsClientCert> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(&self.ca_file).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_protocol_versions(versions).unwrap();
        builder.with_root_certificates(roots)
    }
}

/// Opens connections with TLS.
#[derive(Debug, Clone)]
pub struct TlsClient(Arc<ClientConfig>);

impl TlsClient {
    /// Each connection is a whole handshake, and shows the certificate of its time.
    fn of(mut config: ClientConfig) -> Self {
        config.resumption = Resumption::disabled();
        Self(Arc::new(config))
    }

    /// Connects as to `localhost`.
    pub async fn connect(&self, addr: SocketAddr) -> std::io::Result<TlsStream<TcpStream>> {
        self.connect_on(super::http::connect(addr).await?).await
    }

    /// The same on a socket of the caller's.
    pub async fn connect_on(&self, socket: TcpStream) -> std::io::Result<TlsStream<TcpStream>> {
        TlsConnector::from(Arc::clone(&self.0))
            .connect(ServerName::try_from("localhost").unwrap(), socket)
            .await
    }
}

/// The certificate that the other end has shown, in DER.
pub fn shown(stream: &TlsStream<TcpStream>) -> Vec<u8> {
    stream.get_ref().1.peer_certificates().unwrap()[0].to_vec()
}

/// The certificate of a file, in DER.
pub fn in_file(pair: &Pair) -> Vec<u8> {
    CertificateDer::from_pem_file(&pair.cert_file).unwrap().to_vec()
}
