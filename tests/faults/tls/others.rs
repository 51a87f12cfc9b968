//! F52: TLS to a real Redis (alone, as a cluster, behind a Sentinel) and to a real Neo4j, with the test's own
//! authority. With another authority, or for another host, the node sends them nothing and says what to do.

use std::path::Path;
use std::time::Duration;

use serde_json::json;

use super::request;
use crate::support::authority::{Authority, Pair};
use crate::support::http;
use crate::support::lone::{Lone, Spec};
use crate::support::own_neo4j::OwnNeo4j;
use crate::support::process::free_ports;
use crate::support::redis::{Options, RedisServer};
use crate::support::{say, until, value_within};

/// A Redis with TLS on its own port. `args` are further arguments.
async fn redis_with_tls(pair: &Pair, authority: &Authority, args: &[&str]) -> (RedisServer, u16) {
    let port = free_ports(1)[0];
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let mut options = Options::args(args);
    options.args.extend(["--tls-port".to_owned(), port.to_string()]);
    options.args.extend(["--tls-cert-file".to_owned(), text(&pair.cert_file)]);
    options.args.extend(["--tls-key-file".to_owned(), text(&pair.key_file)]);
    options.args.extend(["--tls-ca-cert-file".to_owned(), text(&authority.ca_file)]);
    options.args.extend(["--tls-auth-clients", "no"].map(str::to_owned));
    (RedisServer::with(options).await, port)
}

fn on(uri: &str, authority: Option<&Authority>) -> Spec {
    let store_ca = authority.map(|authority| authority.ca_file.clone());
    Spec { store: uri.to_owned(), store_ca, ..Spec::embedded("") }
}

/// The entry comes back from the store after the node has lost its memory.
async fn keeps_entries(uri: &str, authority: &Authority) {
    let mut node = Lone::start(&on(uri, Some(authority))).await;
    node.wait_until_well().await;
    let reply = node.ask(&request("kept")).await;
    assert!(reply.header("cache-status").contains("stored"), "{reply}");
    // A node answers first, and then stores.
    until("it is stored", Duration::from_secs(10), async || {
        node.count("hopcache_commits_total", "outcome=\"stored\"").await >= 1.0
    })
    .await;
    let reply = value_within("an answer from the store", Duration::from_secs(60), async || {
        node.again().await;
        let reply = node.ask(&request("kept")).await;
        // On a busy machine the store does not answer in time.
        (!reply.header("cache-status").contains("degraded")).then_some(reply)
    })
    .await;
    assert!(reply.is_hit() && reply.value() == "kept", "{reply}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f52_redis_over_tls_with_a_private_authority() {
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::new(dir.path(), "authority");
    let pair = authority.server(dir.path(), "redis");
    let (_redis, port) = redis_with_tls(&pair, &authority, &[]).await;
    keeps_entries(&format!("rediss://localhost:{port}"), &authority).await;

    let (member, port) =
        redis_with_tls(&pair, &authority, &["--cluster-enabled", "yes", "--tls-cluster", "yes"]).await;
    assert_eq!(member.tell("CLUSTER ADDSLOTSRANGE 0 16383"), "+OK");
    until("the cluster is up", Duration::from_secs(20), async || member.tell("SET probe 1") == "+OK").await;
    keeps_entries(&format!("rediss+cluster://localhost:{port}"), &authority).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f52_a_sentinel_over_tls_with_a_private_authority() {
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::new(dir.path(), "authority");
    let pair = authority.server(dir.path(), "redis");
    let (_leader, leader) = redis_with_tls(&pair, &authority, &["--tls-replication", "yes"]).await;
    let watch = format!("sentinel monitor main 127.0.0.1 {leader} 1\n");
    let port = free_ports(1)[0];
    let files = [&pair.cert_file, &pair.key_file, &authority.ca_file].map(|path| path.display().to_string());
    let conf = format!(
        "tls-port {port}\ntls-cert-file {}\ntls-key-file {}\ntls-ca-cert-file {}\ntls-auth-clients no\ntls-replication yes\n{watch}",
        files[0], files[1], files[2]
    );
    let sentinel = RedisServer::with(Options { conf, ..Options::args(&["--sentinel"]) }).await;
    until("the Sentinel knows its master", Duration::from_secs(20), async || {
        sentinel.tell("SENTINEL CKQUORUM main").starts_with("+OK")
    })
    .await;
    keeps_entries(&format!("rediss+sentinel://localhost:{port}/main"), &authority).await;
}

/// The node's report of each wrong authority, in the log and in `readyz`. Redis gets no command.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f52_a_redis_that_is_not_trusted_gets_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::new(dir.path(), "authority");
    let other = Authority::new(dir.path(), "other");
    for (pair, trusted) in [
        (authority.server(dir.path(), "redis"), Some(&other)),
        (authority.server(dir.path(), "redis"), None),
        (authority.server_elsewhere(dir.path(), "elsewhere"), Some(&authority)),
    ] {
        let (redis, port) = redis_with_tls(&pair, &authority, &[]).await;
        let node = Lone::start(&on(&format!("rediss://localhost:{port}"), trusted)).await;
        assert_eq!(node.ask(&request("served")).await.value(), "served");
        // On a busy machine the handshake's deadline may end the first attempts.
        until("readyz names the certificate", Duration::from_secs(20), async || {
            let why = node.wait_until_degraded("store").await;
            why.contains("certificate is not trusted") && why.contains("store.ca_file")
        })
        .await;
        // When the breaker opens.
        until("the log says so once", Duration::from_secs(20), async || {
            node.log_count("the store's certificate is not trusted") == 1
        })
        .await;
        assert!(redis.calls().keys().all(|command| !command.contains("eval")), "{:?}", redis.calls());
    }
}

/// A real Neo4j that demands TLS: asked with the right authority, and refused with another, and for another host.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f52_neo4j_over_tls_with_a_private_authority_and_with_a_wrong_one() {
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::new(dir.path(), "authority");
    let other = Authority::new(dir.path(), "other");
    let neo4j = OwnNeo4j::start_with_tls(&authority.server(dir.path(), "neo4j"));
    let origin = |host: &str, ca_file: &Path| {
        let uri = format!("bolt+s://{host}:{}", neo4j.bolt.port());
        Spec { origin: format!("uri = \"{uri}\"\nca_file = {ca_file:?}"), ..Spec::embedded("") }
    };
    let node = Lone::start(&origin("localhost", &authority.ca_file)).await;
    let asked = http::post(
        "/db/neo4j/query/v2",
        &http::basic("neo4j", "any"),
        &json!({"statement": "UNWIND range(1, 1000) AS n RETURN sum(n) AS total"}).to_string(),
    );
    let reply = value_within("Neo4j answers over TLS", Duration::from_secs(180), async || {
        Some(node.ask(&asked).await).filter(|reply| reply.status == 202)
    })
    .await;
    assert_eq!(reply.value(), 500_500);
    assert!(node.ask(&asked).await.is_hit());

    let same_machine = |ca_file| origin("127.0.0.1", ca_file);
    let node = Lone::start(&same_machine(&authority.ca_file)).await;
    assert_eq!(node.ask(&asked).await.value(), 500_500, "a certificate may name an address");

    let node = Lone::start(&origin("localhost", &other.ca_file)).await;
    let reply = node.ask(&asked).await;
    assert_eq!(reply.status, 503, "{reply}");
    let advice = "none of the trusted authorities has signed it; set origin.ca_file to the PEM file";
    until("the log says what to do", Duration::from_secs(20), async || node.log_count(advice) >= 1).await;
    say(&format!("refused: {}", reply.json()["errors"][0]["message"]));
}

/// A file that cannot be right ends the start, and is named.
#[test]
fn a_wrong_file_of_authorities_ends_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::new(dir.path(), "authority");
    let pair = authority.server(dir.path(), "pair");
    let (ca, key) = (authority.ca_file.display(), pair.key_file.display());
    for (lines, says) in [
        (
            vec!["origin.uri=bolt+s://h".to_owned(), format!("origin.ca_file={key}")],
            "it has no certificate in PEM form",
        ),
        (
            vec!["origin.uri=bolt://h".to_owned(), format!("origin.ca_file={ca}")],
            "only bolt+s:// and neo4j+s:// check a certificate",
        ),
        (
            vec!["store.uri=redis://h".to_owned(), format!("store.ca_file={ca}")],
            "only rediss:// checks a certificate",
        ),
        (vec!["store.uri=rediss://h".to_owned(), "store.ca_file=/no/such/file".to_owned()], "cannot be read"),
        (
            vec![format!("node.client_tls.cert_file={}", pair.cert_file.display())],
            "set cert_file and key_file",
        ),
    ] {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_hopcache"));
        command.env_clear().args(["config", "check"]);
        for line in &lines {
            command.args(["--set", line]);
        }
        let done = command.output().unwrap();
        let errors = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(!done.status.success() && errors.contains(says), "{lines:?}: {errors}");
    }
}
