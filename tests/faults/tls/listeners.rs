//! F52: a listener with TLS serves nothing without it, accepts only TLS 1.2 and 1.3, and shows its certificate to
//! clients that trust its authority. Client certificates on the admin listener.

use std::process::Command;
use std::time::Duration;

use rustls::version::{TLS12, TLS13};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{Served, VERSIONS, request};
use crate::support::authority::{Authority, in_file, shown};
use crate::support::http::{self, exchange};
use crate::support::until;

/// Status that curl saw, and its exit code.
fn curl(arguments: &[&str]) -> (String, i32) {
    let fixed = [
        "--silent",
        "--show-error",
        "--max-time",
        "20",
        "--output",
        "/dev/null",
        "--write-out",
        "%{http_code}",
    ];
    let done = Command::new("curl").args(fixed).args(arguments).output().expect("curl: run cargo xtask test");
    (String::from_utf8(done.stdout).unwrap(), done.status.code().unwrap())
}

/// Bolt's handshake: the preamble, 5.4, and three times nothing.
const BOLT_HANDSHAKE: [u8; 20] = [0x60, 0x60, 0xB0, 0x17, 0, 0, 4, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// The Bolt listener has the certificate of HTTP, and speaks no Bolt without TLS.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f52_the_bolt_listener_speaks_over_tls_and_not_without() {
    let served = Served::plainly().await;
    let bolt = served.node.addrs.bolt;
    for version in [&TLS12, &TLS13] {
        let mut stream = served.authority.tls_client(&[version], &[]).connect(bolt).await.unwrap();
        assert_eq!(shown(&stream), in_file(&served.pair));
        stream.write_all(&BOLT_HANDSHAKE).await.unwrap();
        let mut agreed = [0; 4];
        stream.read_exact(&mut agreed).await.unwrap();
        assert_eq!(agreed, [0, 0, 4, 5]);
    }
    let mut plain = http::connect(bolt).await.unwrap();
    plain.write_all(&BOLT_HANDSHAKE).await.unwrap();
    let mut answer = Vec::new();
    // A reset is as good as an end: the node closes a socket with bytes that it has not read.
    let _ = plain.read_to_end(&mut answer).await;
    assert!(answer.is_empty(), "{answer:?}");
    let stranger = Authority::new(served.dir.path(), "stranger");
    assert!(stranger.tls_client(VERSIONS, &[]).connect(bolt).await.is_err());
    until("both are counted", Duration::from_secs(20), async || {
        let refused = async |reason: &str| {
            let labels = format!("listener=\"bolt\",reason=\"{reason}\"");
            served.node.count("hopcache_connections_refused_total", &labels).await
        };
        refused("not_tls").await == 1.0 && refused("handshake_failed").await == 1.0
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f52_both_listeners_serve_over_tls_and_nothing_without() {
    let served = Served::plainly().await;
    let (client, admin) = (served.node.addrs.client, served.node.addrs.admin);
    for version in [&TLS12, &TLS13] {
        let tls = served.authority.tls_client(&[version], &[b"http/1.1"]);
        let mut stream = tls.connect(client).await.unwrap();
        for _ in 0..3 {
            assert_eq!(exchange(&mut stream, &request("over TLS")).await.unwrap().value(), "over TLS");
        }
        let found = exchange(&mut stream, &http::get("/")).await.unwrap().json();
        assert_eq!(found["query"], "https://t/db/{databaseName}/query/v2");
        assert_eq!(found["bolt_routing"], format!("neo4j+s://{}", served.node.addrs.bolt));
        let mut stream = tls.connect(admin).await.unwrap();
        assert_eq!(exchange(&mut stream, &http::get("/readyz")).await.unwrap().status, 200);
    }
    let only_h2 = served.authority.tls_client(VERSIONS, &[b"h2"]);
    assert!(only_h2.connect(client).await.is_err(), "a protocol that is not spoken was agreed on");

    for (addr, key) in [(client, "node.client_tls"), (admin, "node.admin_tls")] {
        let reply = http::ask(addr, &request("without TLS")).await.unwrap();
        assert_eq!(reply.status, 400, "{reply}");
        let text = String::from_utf8_lossy(&reply.body).into_owned();
        assert!(text.contains("https://") && text.contains(key), "{text}");
    }
    let refused = "hopcache_connections_refused_total";
    for listener in ["client", "admin"] {
        let not_tls = format!("listener=\"{listener}\",reason=\"not_tls\"");
        assert_eq!(served.node.count(refused, &not_tls).await, 1.0);
    }
    assert_eq!(served.node.count(refused, "listener=\"client\",reason=\"handshake_failed\"").await, 1.0);
    assert_eq!(served.node.count("hopcache_tls_handshakes_total", "listener=\"client\"").await, 2.0);
}

/// A client that is not ours: both versions, and no older one, which a tool could be talked down to.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f52_curl_trusts_the_authority_and_no_other() {
    let served = Served::plainly().await;
    let other = Authority::new(served.dir.path(), "other");
    let url = format!("https://localhost:{}/", served.node.addrs.client.port());
    let live = format!("https://localhost:{}/livez", served.node.addrs.admin.port());
    let (ours, theirs) = (served.authority.ca_file.to_str().unwrap(), other.ca_file.to_str().unwrap());
    for url in [&*url, &*live] {
        for version in [&["--tlsv1.2", "--tls-max", "1.2"][..], &["--tlsv1.3"], &["--http2"]] {
            assert_eq!(curl(&[version, &["--cacert", ours, url]].concat()), ("200".to_owned(), 0));
        }
        assert_eq!(curl(&["--cacert", theirs, url]), ("000".to_owned(), 60), "no trusted authority");
        let (status, code) = curl(&["--tlsv1.0", "--tls-max", "1.1", "--cacert", ours, url]);
        assert!(status == "000" && code != 0, "{status} {code}: TLS 1.1 was served");
    }
}

/// Every path but the two probes needs a certificate of an operator; a wrong one does not even pass the handshake.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f52_the_admin_listener_asks_for_a_client_certificate() {
    let served = Served::start(|dir| {
        let operators = Authority::new(dir, "operators");
        (format!(", client_ca_file = {:?}", operators.ca_file), Some(operators.client(dir, "ann")))
    })
    .await;
    let at = |name: &str| served.dir.path().join(name).to_str().unwrap().to_owned();
    let strangers = Authority::new(served.dir.path(), "strangers").client(served.dir.path(), "eve");
    let base = format!("https://localhost:{}", served.node.addrs.admin.port());
    let ca = served.authority.ca_file.to_str().unwrap().to_owned();
    let ask = |path: &str, more: &[&str]| {
        let url = format!("{base}{path}");
        curl(&[&["--cacert", &ca, &url][..], more].concat())
    };
    let (cert, key) = (at("ann.cert.pem"), at("ann.key.pem"));
    let ann = ["--cert", &*cert, "--key", &*key];
    for path in ["/livez", "/readyz"] {
        assert_eq!(ask(path, &[]), ("200".to_owned(), 0));
    }
    for path in ["/metrics", "/admin/v1/ring", "/admin/v1/config"] {
        assert_eq!(ask(path, &[]), ("403".to_owned(), 0), "{path}");
        assert_eq!(ask(path, &ann), ("200".to_owned(), 0), "{path}");
    }
    let eve = [strangers.cert_file.to_str().unwrap(), strangers.key_file.to_str().unwrap()];
    let (status, code) = ask("/metrics", &["--cert", eve[0], "--key", eve[1]]);
    assert!(status == "000" && code != 0, "{status} {code}");
}

/// F31: a client that opens a connection to a TLS listener and stays silent, or stops in the middle, holds the
/// connection only for a bounded time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f31_a_handshake_that_does_not_go_on_ends() {
    let served = Served::plainly().await;
    let mut begun = http::connect(served.node.addrs.client).await.unwrap();
    tokio::io::AsyncWriteExt::write_all(&mut begun, &[0x16, 3, 1, 2, 0]).await.unwrap();
    let answer = http::listen(begun, Duration::from_secs(30)).await;
    assert!(answer.is_closed && answer.received.is_empty(), "{answer}");
    until("it is counted", Duration::from_secs(5), async || {
        let labels = "listener=\"client\",reason=\"handshake_too_slow\"";
        served.node.count("hopcache_connections_refused_total", labels).await == 1.0
    })
    .await;
}
