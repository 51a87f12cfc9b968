//! Handshake, HELLO, LOGON, logging on again and TLS, against scripted servers.

use std::sync::Arc;
use std::time::Duration;

use super::support::*;
use hopcache_bolt::server::Version;
use hopcache_bolt::{Address, Auth, Connection, OpenError, Options, Roots};
use hopcache_packstream::{Reader, Value};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

async fn open_error(script: Vec<Step>) -> OpenError {
    let (address, _server) = serve(script).await;
    Connection::open(&address, &Auth::None, &options()).await.unwrap_err()
}

fn basic() -> Auth {
    Auth::Basic { user: "ann".to_owned(), password: "sesame-1".to_owned().into() }
}

fn metadata(request: &[u8]) -> Value {
    Reader::new(&request[2..]).value().unwrap()
}

#[tokio::test]
async fn every_offered_version_is_spoken() {
    let versions = (0..=4).chain(6..=8).map(|minor| Version::new(5, minor));
    for version in versions.chain([Version::new(6, 0), Version::new(6, 1)]) {
        let has_logon = version != Version::new(5, 0);
        let mut script = vec![Step::Handshake(version), Step::Expect(HELLO)];
        script.extend(has_logon.then_some(Step::Expect(LOGON)));
        script.push(Step::Send(success(&[("server", "Neo4j/5.x".into())])));
        script.extend(has_logon.then(|| Step::Send(success(&[]))));
        script.push(Step::Expect(GOODBYE));
        let (address, server) = serve(script).await;
        let connection = Connection::open(&address, &basic(), &options()).await.unwrap();
        assert_eq!(connection.version(), version);
        assert_eq!(connection.server(), "Neo4j/5.x");
        assert_eq!(connection.can_log_on_again(), has_logon);
        connection.close().await;
        let requests = server.await.unwrap();
        let with_credentials = metadata(&requests[usize::from(has_logon)]);
        assert_eq!(with_credentials.get("principal"), Some(&Value::from("ann")));
        assert_eq!(with_credentials.get("credentials"), Some(&Value::from("sesame-1")));
    }
}

#[tokio::test]
async fn what_is_no_bolt_5_is_named() {
    for (answer, part) in [
        (vec![0, 0, 0, 0], "none of these versions"),
        (b"HTTP/1.1 400 Bad Request\r\n".to_vec(), "name the Bolt port"),
        (vec![0, 0, 4, 4], "04"),
        (vec![0, 0, 9, 5], "09"),
        (vec![0, 0, 5, 5], "05"),
        (vec![0, 0, 2, 6], "06"),
        (vec![0xFF; 4], "FF"),
    ] {
        let error = open_error(vec![Step::Send(answer)]).await;
        assert!(matches!(&error, OpenError::NotBolt(text) if text.contains(part)), "{error}");
    }
}

#[tokio::test]
async fn a_refused_log_on_carries_the_servers_words() {
    let code = "Neo.ClientError.Security.Unauthorized";
    let mut script = greeted();
    script[4] = Step::Send(failure(code));
    let error = open_error(script).await;
    assert!(matches!(&error, OpenError::Refused(failure) if failure.code == code), "{error}");
}

#[tokio::test]
async fn a_server_that_goes_or_babbles_while_greeting_is_an_error() {
    for answer in [vec![], ignored(), record(vec![]), framed(&[0xC0]), vec![0xFF; 200_000]] {
        let mut script = greeted();
        script.truncate(3);
        script.push(Step::Send(answer));
        let error = open_error(script).await;
        assert!(matches!(error, OpenError::Unreachable { .. } | OpenError::Protocol(_)), "{error}");
    }
}

#[tokio::test]
async fn nobody_listening_is_unreachable() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let address: Address = format!("bolt://127.0.0.1:{port}").parse().unwrap();
    let error = Connection::open(&address, &Auth::None, &options()).await.unwrap_err();
    assert!(matches!(error, OpenError::Unreachable { .. }), "{error}");
}

#[tokio::test]
async fn a_silent_server_is_left_at_the_deadline() {
    for script in [vec![Step::Hang], vec![Step::Handshake(Version::new(5, 4)), Step::Hang]] {
        let (address, _server) = serve(script).await;
        let options = Options { connect_timeout: Duration::from_millis(50), ..options() };
        let error = Connection::open(&address, &Auth::None, &options).await.unwrap_err();
        assert_eq!(error, OpenError::TimedOut);
    }
}

#[tokio::test]
async fn an_idle_connection_that_the_server_closed_is_not_alive() {
    let (address, server) = serve(greeted()).await;
    let connection = open(&address).await;
    server.await.unwrap();
    // The server's end is on its way. It has arrived when the socket becomes readable.
    while connection.is_alive().await {
        tokio::task::yield_now().await;
    }
    assert!(connection.is_ready(), "no exchange was cut: the server has closed it");
}

#[tokio::test]
async fn logging_on_again_uses_the_same_credentials_and_believes_the_answer() {
    for (answer, accepted) in
        [(success(&[]), true), (failure("Neo.ClientError.Security.Unauthorized"), false)]
    {
        let mut script = greeted();
        script.extend([
            Step::Expect(LOGOFF),
            Step::Expect(LOGON),
            Step::Send(success(&[])),
            Step::Send(answer),
        ]);
        script.push(Step::Hang);
        let (address, server) = serve(script).await;
        let mut connection = Connection::open(&address, &basic(), &options()).await.unwrap();
        let outcome = connection.log_on_again().await;
        assert_eq!(outcome.is_ok(), accepted, "{outcome:?}");
        assert_eq!(connection.is_ready(), accepted);
        drop(connection);
        let requests = server.await.unwrap();
        assert_eq!(requests[1], requests[3], "both LOGONs are the same");
    }
}

#[test]
fn secrets_are_not_in_debug_output() {
    let shown = format!("{:?} {:?}", basic(), Auth::Bearer { token: "sesame-2".to_owned().into() });
    assert!(!shown.contains("sesame"), "{shown}");
}

/// A scripted server behind TLS with a self-signed certificate.
async fn serve_tls(script: Vec<Step>) -> u16 {
    let signed = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    serve_tls_with((signed.cert.der().clone(), signed.signing_key), script).await
}

/// Like [`serve_tls`], with this certificate and key.
async fn serve_tls_with((cert, key): (CertificateDer<'static>, rcgen::KeyPair), script: Vec<Step>) -> u16 {
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![cert], key)
        .unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        let (socket, _) = listener.accept().await.unwrap();
        if let Ok(stream) = tokio_rustls::TlsAcceptor::from(Arc::new(config)).accept(socket).await {
            play(stream, script).await;
        }
    });
    port
}

fn authority() -> rcgen::CertifiedIssuer<'static, rcgen::KeyPair> {
    let mut params = rcgen::CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    rcgen::CertifiedIssuer::self_signed(params, rcgen::KeyPair::generate().unwrap()).unwrap()
}

/// F52: a private authority is trusted where it is configured, for the host of its certificate. Every refusal names
/// its reason.
#[tokio::test]
async fn a_private_authority_is_trusted_for_its_host_and_no_other_is() {
    let (ours, other) = (authority(), authority());
    let pair = |host: &str| {
        let key = rcgen::KeyPair::generate().unwrap();
        let params = rcgen::CertificateParams::new(vec![host.to_owned()]).unwrap();
        (params.signed_by(&key, &ours).unwrap().der().clone(), key)
    };
    let trusting = |pem: String| Options { roots: Roots::from_pem(pem.as_bytes()).unwrap(), ..options() };
    let address = |port: u16| format!("bolt+s://localhost:{port}").parse().unwrap();
    let at = address(serve_tls_with(pair("localhost"), greeted()).await);
    Connection::open(&at, &Auth::None, &trusting(ours.pem())).await.unwrap();
    for (host, pem, says) in [
        ("localhost", other.pem(), "none of the trusted authorities has signed it"),
        ("elsewhere.test", ours.pem(), "not made for this host name"),
    ] {
        let at = address(serve_tls_with(pair(host), greeted()).await);
        let error = Connection::open(&at, &Auth::None, &trusting(pem)).await.unwrap_err();
        assert!(matches!(&error, OpenError::Untrusted(why) if why.contains(says)), "{error}");
    }
    let (plain, _server) = serve(vec![Step::Send(b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec())]).await;
    let error = Connection::open(&address(plain.port), &Auth::None, &trusting(ours.pem())).await.unwrap_err();
    assert!(matches!(&error, OpenError::Tls(why) if why.contains("answers without TLS")), "{error}");
    assert!(Roots::from_pem(b"no certificate").is_err());
}

#[tokio::test]
async fn a_self_signed_certificate_passes_with_ssc_and_only_there() {
    let mut script = run_answered([columns(&["n"]), record(vec![7.into()]), success(&[])].concat());
    script.push(Step::Hang);
    let lax = format!("bolt+ssc://localhost:{}", serve_tls(script.clone()).await);
    let mut connection = open(&lax.parse().unwrap()).await;
    assert_eq!(&connection.run(&statement("RETURN 7")).await.unwrap().records[..], [0x91, 7]);
    assert!(connection.is_alive().await, "session tickets do not count as something to say");

    let strict = format!("bolt+s://localhost:{}", serve_tls(script).await);
    let error = Connection::open(&strict.parse().unwrap(), &Auth::None, &options()).await.unwrap_err();
    assert!(matches!(error, OpenError::Untrusted(_)), "{error}");
}

/// F25: a probe needs no credentials, and the server's answer to HELLO does not matter.
#[tokio::test]
async fn a_probe_says_whether_a_bolt_server_is_there() {
    for (version, answer) in [
        (Version::new(6, 1), success(&[("server", "Neo4j/2026.x".into())])),
        (Version::new(5, 4), success(&[("server", "Neo4j/5.x".into())])),
        (Version::new(5, 1), failure("Neo.TransientError.Request.NoThreadsAvailable")),
    ] {
        let script =
            vec![Step::Handshake(version), Step::Expect(HELLO), Step::Send(answer), Step::Expect(GOODBYE)];
        let (address, server) = serve(script).await;
        Connection::probe(&address, &options()).await.unwrap();
        let requests = server.await.unwrap();
        assert_eq!(metadata(&requests[0]).get("credentials"), None);
    }
    // Before 5.1 HELLO is the log-on, so the handshake has to be enough.
    let (address, _server) = serve(vec![Step::Handshake(Version::new(5, 0))]).await;
    Connection::probe(&address, &options()).await.unwrap();
}

/// F25: a server that accepts connections and answers nothing counts as absent.
#[tokio::test]
async fn a_probe_of_a_silent_server_ends_in_time() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("bolt://{}", listener.local_addr().unwrap()).parse().unwrap();
    let brief = Options { connect_timeout: Duration::from_millis(50), ..options() };
    assert_eq!(Connection::probe(&address, &brief).await, Err(OpenError::TimedOut));
    drop(listener);
    let error = Connection::probe(&address, &options()).await.unwrap_err();
    assert!(matches!(error, OpenError::Unreachable { .. }), "{error}");
}
