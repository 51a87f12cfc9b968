//! Handshakes, versions and protocols, and certificates that change, on real sockets.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rcgen::{CertificateParams, KeyPair};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::ring::default_provider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::version::{TLS12, TLS13};
use rustls::{
    ClientConfig, DigitallySignedStruct, ProtocolVersion, SignatureScheme, SupportedProtocolVersion,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::*;

/// Writes a self-signed pair; its certificate in DER.
fn write_pair(files: &TlsFiles) -> Vec<u8> {
    let key = KeyPair::generate().unwrap();
    let certificate =
        CertificateParams::new(vec!["localhost".to_owned()]).unwrap().self_signed(&key).unwrap();
    std::fs::write(&files.cert_file, certificate.pem()).unwrap();
    std::fs::write(&files.key_file, key.serialize_pem()).unwrap();
    certificate.der().to_vec()
}

fn files(dir: &Path) -> TlsFiles {
    TlsFiles { cert_file: dir.join("cert.pem"), key_file: dir.join("key.pem"), client_ca_file: None }
}

async fn opened(
    files: &TlsFiles,
    alpn: &'static [&'static [u8]],
) -> (Acceptor, WatchedFiles, Arc<AtomicUsize>) {
    let handshakes = Handshakes::start().await.unwrap();
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    let completed = Arc::new(move || {
        counted.fetch_add(1, Ordering::Relaxed);
    });
    let (acceptor, watched) = Acceptor::open(files.clone(), alpn, handshakes, completed).unwrap();
    (acceptor, watched, count)
}

/// Both ends of a connection over loopback.
async fn sockets() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap());
    let (client, accepted) = tokio::join!(client, listener.accept());
    (client.unwrap(), accepted.unwrap().0)
}

/// Accepts any certificate: these tests compare it.
#[derive(Debug)]
struct Any;

impl ServerCertVerifier for Any {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }
    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }
    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }
    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        default_provider().signature_verification_algorithms.supported_schemes()
    }
}

fn connector(version: &'static SupportedProtocolVersion, alpn: &[&[u8]]) -> TlsConnector {
    let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()));
    let builder = builder.with_protocol_versions(&[version]).unwrap();
    let mut config =
        builder.dangerous().with_custom_certificate_verifier(Arc::new(Any)).with_no_client_auth();
    config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
    TlsConnector::from(Arc::new(config))
}

fn localhost() -> ServerName<'static> {
    ServerName::try_from("localhost").unwrap()
}

type Shaken = (std::io::Result<TlsStream<TcpStream>>, Result<ListenerStream, HandshakeError>);

async fn shake(acceptor: &Acceptor, version: &'static SupportedProtocolVersion, alpn: &[&[u8]]) -> Shaken {
    let (client, server) = sockets().await;
    let connected = connector(version, alpn).connect(localhost(), client);
    tokio::join!(connected, acceptor.accept(server))
}

/// The certificate that a client gets now.
async fn seen(acceptor: &Acceptor) -> Vec<u8> {
    let (connected, _accepted) = shake(acceptor, &TLS13, &[]).await;
    connected.unwrap().get_ref().1.peer_certificates().unwrap()[0].to_vec()
}

/// F52: TLS 1.2 and 1.3, `http/1.1` if HTTP is offered, and no protocol that the listener does not speak.
#[tokio::test]
async fn both_versions_and_the_listeners_own_protocol_are_agreed_on() {
    let dir = tempfile::tempdir().unwrap();
    let files = files(dir.path());
    write_pair(&files);
    let (acceptor, _watched, count) = opened(&files, ALPN_HTTP).await;
    for (version, agreed) in [(&TLS12, ProtocolVersion::TLSv1_2), (&TLS13, ProtocolVersion::TLSv1_3)] {
        let (connected, accepted) = shake(&acceptor, version, &[b"h2", b"http/1.1"]).await;
        let mut connected = connected.unwrap();
        assert_eq!(connected.get_ref().1.protocol_version(), Some(agreed));
        assert_eq!(connected.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
        let mut accepted = accepted.unwrap();
        assert!(!has_client_certificate(&accepted));
        connected.write_all(b"ping").await.unwrap();
        let mut heard = [0; 4];
        accepted.read_exact(&mut heard).await.unwrap();
        assert_eq!(&heard, b"ping");
    }
    assert_eq!(count.load(Ordering::Relaxed), 2);
    let (connected, accepted) = shake(&acceptor, &TLS13, &[b"h2"]).await;
    assert!(connected.is_err() && matches!(accepted, Err(HandshakeError::Failed(_))), "{accepted:?}");
    // A listener without ALPN accepts any protocol that a client offers.
    let (acceptor, _watched, _count) = opened(&files, &[]).await;
    let (connected, _accepted) = shake(&acceptor, &TLS13, &[b"bolt"]).await;
    assert_eq!(connected.unwrap().get_ref().1.alpn_protocol(), None);
}

/// F52: a client without TLS is recognised before any byte is read, so that its protocol can answer.
#[tokio::test]
async fn a_client_without_tls_keeps_its_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let files = files(dir.path());
    write_pair(&files);
    let (acceptor, _watched, _count) = opened(&files, ALPN_HTTP).await;
    let (mut client, server) = sockets().await;
    client.write_all(b"GET / HTTP/1.1\r\n").await.unwrap();
    let Err(HandshakeError::NotTls(mut socket)) = acceptor.accept(server).await else { panic!("accepted") };
    let mut heard = [0; 3];
    socket.read_exact(&mut heard).await.unwrap();
    assert_eq!(&heard, b"GET");
    let (client, server) = sockets().await;
    drop(client);
    assert!(matches!(acceptor.accept(server).await, Err(HandshakeError::Silent)));
}

/// Reports the thread that asks for the certificate.
#[derive(Debug)]
struct Witness(Arc<dyn ResolvesServerCert>, Mutex<Option<String>>);

impl ResolvesServerCert for Witness {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        *self.1.lock().unwrap() = std::thread::current().name().map(str::to_owned);
        self.0.resolve(hello)
    }
}

/// F45: the signature is computed on the thread of handshakes, and not on a thread that serves hits.
#[tokio::test]
async fn a_handshake_is_computed_on_the_thread_of_handshakes() {
    let dir = tempfile::tempdir().unwrap();
    let files = files(dir.path());
    write_pair(&files);
    let mut config = files.server_config(&files.read().unwrap(), ALPN_HTTP).unwrap();
    let witness = Arc::new(Witness(Arc::clone(&config.cert_resolver), Mutex::default()));
    config.cert_resolver = Arc::clone(&witness) as Arc<dyn ResolvesServerCert>;
    let handshakes = Handshakes::start().await.unwrap();
    let (client, server) = sockets().await;
    let connected = connector(&TLS13, &[]).connect(localhost(), client);
    let (connected, accepted) = tokio::join!(connected, handshakes.perform(Arc::new(config), server));
    assert!(connected.is_ok() && accepted.is_ok());
    assert_eq!(witness.1.lock().unwrap().as_deref(), Some("hopcache-tls"));
}

/// F31: a client that begins a handshake and stops is disconnected at the limit, and holds no thread.
#[tokio::test(start_paused = true)]
async fn a_handshake_that_does_not_go_on_ends_at_its_limit() {
    let dir = tempfile::tempdir().unwrap();
    let files = files(dir.path());
    write_pair(&files);
    let (acceptor, _watched, count) = opened(&files, ALPN_HTTP).await;
    let (mut client, server) = sockets().await;
    client.write_all(&[0x16, 3, 1]).await.unwrap();
    let started = tokio::time::Instant::now();
    assert!(matches!(acceptor.accept(server).await, Err(HandshakeError::TooSlow)));
    let limit = Duration::from_millis(hopcache_core::limits::TLS_HANDSHAKE_MS_MAX);
    assert!(started.elapsed() >= limit && started.elapsed() < 2 * limit, "{:?}", started.elapsed());
    let (client, server) = sockets().await;
    assert!(matches!(acceptor.accept(server).await, Err(HandshakeError::Silent)));
    drop(client);
    assert_eq!(count.load(Ordering::Relaxed), 0);
}

/// F53: the next handshake uses a new pair; established connections go on.
#[tokio::test]
async fn a_new_pair_is_used_from_the_next_look_on() {
    let dir = tempfile::tempdir().unwrap();
    let files = files(dir.path());
    let first = write_pair(&files);
    let (acceptor, mut watched, _count) = opened(&files, ALPN_HTTP).await;
    assert_eq!(seen(&acceptor).await, first);
    assert_eq!(watched.look(), None);
    let (connected, accepted) = shake(&acceptor, &TLS13, &[]).await;
    let (mut connected, mut accepted) = (connected.unwrap(), accepted.unwrap());

    let second = write_pair(&files);
    assert_eq!(watched.look(), Some(Reload::Used));
    assert_eq!(seen(&acceptor).await, second);
    assert_eq!(watched.look(), None);
    accepted.write_all(b"pong").await.unwrap();
    accepted.flush().await.unwrap();
    let mut heard = [0; 4];
    connected.read_exact(&mut heard).await.unwrap();
    assert_eq!(&heard, b"pong");
}

/// F53: half of a new pair, no certificate, or no file at all changes nothing. It is reported once, at the second
/// look.
#[tokio::test]
async fn a_bad_new_pair_keeps_the_one_before() {
    let dir = tempfile::tempdir().unwrap();
    let files = files(dir.path());
    let first = write_pair(&files);
    let (acceptor, mut watched, _count) = opened(&files, ALPN_HTTP).await;
    let key_of_the_first = std::fs::read(&files.key_file).unwrap();
    let cert_of_the_first = std::fs::read(&files.cert_file).unwrap();

    write_pair(&files);
    std::fs::write(&files.key_file, &key_of_the_first).unwrap();
    assert_eq!(watched.look(), None, "a key may be written after its certificate");
    assert!(matches!(watched.look(), Some(Reload::Refused(TlsFileError::NoPair { .. }))));
    assert_eq!(watched.look(), None, "reported once");
    for (content, refused) in [("", "certificate"), ("-----BEGIN CERTIFICATE-----\n!\n", "certificate")] {
        std::fs::write(&files.cert_file, content).unwrap();
        let reloads: Vec<Reload> = (0..3).filter_map(|_| watched.look()).collect();
        assert!(reloads.len() <= 1, "{reloads:?}");
        for reload in reloads {
            let Reload::Refused(why) = reload else { panic!("used {content:?}") };
            assert!(why.to_string().contains(refused), "{why}");
        }
    }
    std::fs::remove_file(&files.cert_file).unwrap();
    assert_eq!(watched.look(), None);
    assert!(matches!(watched.look(), Some(Reload::Refused(TlsFileError::Unreadable { .. }))));
    assert_eq!(seen(&acceptor).await, first);

    // The pair in use is put back, and then the next one comes.
    std::fs::write(&files.cert_file, &cert_of_the_first).unwrap();
    assert_eq!(watched.look(), None);
    let third = write_pair(&files);
    assert_eq!(watched.look(), Some(Reload::Used));
    assert_eq!(seen(&acceptor).await, third);
}

/// The error in the files of a start, and the change to make.
#[test]
fn wrong_files_say_what_to_change() {
    let dir = tempfile::tempdir().unwrap();
    let files = files(dir.path());
    let refused = |files: &TlsFiles| files.check().unwrap_err().to_string();
    assert!(refused(&files).contains("cert.pem: cannot be read"), "{}", refused(&files));
    write_pair(&files);
    assert_eq!(files.check(), Ok(()));
    let swapped =
        TlsFiles { cert_file: files.key_file.clone(), key_file: files.cert_file.clone(), ..files.clone() };
    assert!(refused(&swapped).contains("no certificate in PEM form"), "{}", refused(&swapped));
    let keyless = TlsFiles { key_file: files.cert_file.clone(), ..files.clone() };
    assert!(refused(&keyless).contains("no private key in PEM form"), "{}", refused(&keyless));
    let authorities = TlsFiles { client_ca_file: Some(files.key_file.clone()), ..files.clone() };
    assert!(refused(&authorities).contains("key.pem: it has no certificate"), "{}", refused(&authorities));
    let large = vec![b'a'; usize::try_from(hopcache_core::limits::TLS_FILE_BYTES_MAX).unwrap() + 1];
    std::fs::write(&files.cert_file, large).unwrap();
    assert!(refused(&files).contains("larger than"), "{}", refused(&files));
}
