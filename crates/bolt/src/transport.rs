//! Sockets: TCP with NODELAY and keep-alive, and TLS over it. Nothing here knows Bolt.

use std::sync::Arc;
use std::time::Duration;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::address::{Address, Security};
use crate::error::OpenError;
use crate::roots::{self, Roots, builder, provider};

/// After how long a silent socket is asked by the kernel whether the other machine is still there, and how often. A dead
/// one, or a path that lost the connection, is found within a minute, also while the connection is idle.
const KEEPALIVE_AFTER: Duration = Duration::from_secs(30);
const KEEPALIVE_EVERY: Duration = Duration::from_secs(10);
const KEEPALIVE_PROBES: u32 = 3;
/// For how long sent bytes may be without an acknowledgement of the other kernel. Keep-alive asks nothing meanwhile, and by
/// itself the kernel repeats them for 15 minutes.
const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(60);

/// A byte stream, usually over a TCP socket.
pub(crate) trait Duplex: AsyncRead + AsyncWrite + Unpin + Send + Sync {
    /// The socket below, if there is one.
    fn socket(&self) -> Option<&TcpStream>;
}

impl Duplex for TcpStream {
    fn socket(&self) -> Option<&TcpStream> {
        Some(self)
    }
}

impl Duplex for TlsStream<TcpStream> {
    fn socket(&self) -> Option<&TcpStream> {
        Some(self.get_ref().0)
    }
}

impl Duplex for tokio::io::DuplexStream {
    fn socket(&self) -> Option<&TcpStream> {
        None
    }
}

/// Connects, with TLS if the address asks for it. It has no deadline of its own.
pub(crate) async fn connect(address: &Address, roots: &Roots) -> Result<Box<dyn Duplex>, OpenError> {
    let unreachable = |error: std::io::Error| OpenError::Unreachable {
        address: address.to_string(),
        reason: error.to_string(),
    };
    let socket = TcpStream::connect((address.host.as_str(), address.port)).await;
    let socket = socket.map_err(|error| {
        if is_out_of_descriptors(&error) {
            OpenError::OutOfDescriptors(error.to_string())
        } else {
            unreachable(error)
        }
    })?;
    // Without it a small message waits for the server's delayed ACK (40 ms).
    socket.set_nodelay(true).map_err(unreachable)?;
    watch(&socket);
    let config = match address.security {
        Security::Plain => return Ok(Box::new(socket)),
        Security::Tls => roots.config()?,
        Security::TlsAnyCertificate => unchecked_config()?,
    };
    let name =
        ServerName::try_from(address.host.clone()).map_err(|error| OpenError::Tls(error.to_string()))?;
    let stream = TlsConnector::from(config).connect(name, socket).await;
    Ok(Box::new(stream.map_err(|error| roots::failed(&error, address))?))
}

/// Has the kernel find a connection that died without a word. Without it the connection works as before.
fn watch(socket: &TcpStream) {
    let keepalive = TcpKeepalive::new()
        .with_time(KEEPALIVE_AFTER)
        .with_interval(KEEPALIVE_EVERY)
        .with_retries(KEEPALIVE_PROBES);
    let socket = SockRef::from(socket);
    let watched = socket.set_tcp_keepalive(&keepalive);
    #[cfg(target_os = "linux")]
    let watched = watched.and_then(|()| socket.set_tcp_user_timeout(Some(UNACKNOWLEDGED_MAX)));
    if let Err(error) = watched {
        tracing::debug!(%error, "the kernel does not watch a connection to the Bolt server");
    }
}

/// EMFILE and ENFILE: std has no kind for them.
fn is_out_of_descriptors(error: &std::io::Error) -> bool {
    use rustix::io::Errno;
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE))
}

fn unchecked_config() -> Result<Arc<ClientConfig>, OpenError> {
    let verifier = Arc::new(AnyCertificate { provider: provider() });
    let config = builder()?.dangerous().with_custom_certificate_verifier(verifier);
    Ok(Arc::new(config.with_no_client_auth()))
}

/// Accepts every certificate, as `bolt+ssc` does in Neo4j's drivers; the handshake's signature is
/// still checked, so the peer has at least the key of the certificate that it showed.
#[derive(Debug)]
struct AnyCertificate {
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
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
