//! Nodes that start while Redis or Neo4j is away, or with wrong passwords, and recover by themselves. Starts that fail,
//! with an error that names the key and says what to do (exit codes of INTERFACE section 3).

use std::process::{Command, Output};
use std::time::Duration;

use serde_json::json;

use crate::support::lone::{Lone, Spec};
use crate::support::process::free_ports;
use crate::support::redis::{Options, RedisServer};
use crate::support::tcp_proxy::{Mode, TcpProxy};
use crate::support::{environment, http, say, until};

/// Of the log's line, and not of the error in it.
const STORE_AWAY: &str = "the store cannot be reached, or does not answer in time";
const WAIT_MAX: Duration = Duration::from_secs(20);

fn hopcache(args: &[&str], environment: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hopcache"));
    command.args(args).env_clear().envs(environment.iter().copied()).output().unwrap()
}

/// The exit code and stderr. Fails if stdout has a line, or the program panicked.
fn ended(done: &Output) -> (i32, String) {
    let errors = String::from_utf8(done.stderr.clone()).unwrap();
    assert!(done.stdout.is_empty() && !errors.contains("panicked"), "{errors}");
    (done.status.code().unwrap(), errors)
}

fn neo4j_addr() -> std::net::SocketAddr {
    let bolt = environment("HOPCACHE_TEST_NEO4J_BOLT");
    let addr = bolt.trim_start_matches("bolt://").trim_end_matches('/');
    std::net::ToSocketAddrs::to_socket_addrs(addr).unwrap().next().unwrap()
}

fn request(what: &str) -> std::sync::Arc<[u8]> {
    http::query(&format!("RETURN '{what}' AS what"), &json!({}))
}

/// A file that is wrong is a failed start (1), a flag that is wrong is wrong usage (2).
#[test]
fn a_wrong_key_or_value_ends_the_start_and_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("node.toml");
    let path = path.to_str().unwrap();
    let serve = ["serve", "--config", path];
    for (text, says) in [
        ("[store]\nurl = \"memory:\"\n", vec!["store.url: no such key", ":2", "did you mean store.uri?"]),
        ("[sotre]\nuri = \"memory:\"\n", vec!["sotre.uri", "no such key"]),
        ("[store]\nuri = \"http://h\"\n", vec!["store.uri", "scheme is unknown"]),
        ("[entry]\nttl = \"soon\"\n", vec!["entry.ttl", "\"soon\"", "allowed:"]),
        ("[entry\n", vec!["node.toml:1", "not valid TOML"]),
        ("[origin]\nauth = \"service\"\n", vec!["origin.auth", "origin.user and origin.password_file"]),
    ] {
        std::fs::write(path, text).unwrap();
        let (code, errors) = ended(&hopcache(&serve, &[]));
        assert_eq!(code, 1, "{text}: {errors}");
        for part in says {
            assert!(errors.contains(part), "{text}: no {part:?} in: {errors}");
        }
    }
    let (code, errors) = ended(&hopcache(&["serve", "--config", "/no/such/file"], &[]));
    assert!(code == 1 && errors.contains("/no/such/file: cannot be read"), "{errors}");
    let (code, errors) = ended(&hopcache(&["serve"], &[("HOPCACHE_STORE__URL", "memory:")]));
    assert!(code == 1 && errors.contains("did you mean HOPCACHE_STORE__URI?"), "{errors}");
    for flags in [
        &["--set", "store.url=memory:"][..],
        &["--set", "entry.ttl=soon"],
        &["--set", "entry"],
        &["--confg", "x"],
    ] {
        let (code, errors) = ended(&hopcache(&[&["serve"], flags].concat(), &[]));
        assert!(code == 2 && !errors.is_empty(), "{flags:?}: {code}: {errors}");
    }
}

#[test]
fn a_port_in_use_is_named_with_its_key() {
    let keys = ["client_addr", "peer_addr", "admin_addr", "bolt_addr"];
    for key in keys {
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = taken.local_addr().unwrap().to_string();
        let flags: Vec<String> = keys
            .map(|each| format!("--set=node.{each}={}", if each == key { &addr } else { "127.0.0.1:0" }))
            .to_vec();
        let mut args = vec!["serve", "--sample"];
        args.extend(flags.iter().map(String::as_str));
        let (code, errors) = ended(&hopcache(&args, &[]));
        assert_eq!(code, 1, "{errors}");
        assert!(errors.contains(&format!("node.{key}: cannot listen on {addr}")), "{errors}");
    }
}

/// Ready at once, logs the missing store once, answers, and uses Redis when it comes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_redis_at_the_start_a_node_serves_and_finds_it_later() {
    let port = free_ports(1)[0];
    let node = Lone::start(&Spec::on(&format!("redis://127.0.0.1:{port}"))).await;
    let why = node.wait_until_degraded("store").await;
    assert!(why.contains("cannot be reached"), "{why}");
    for k in 0..3 {
        assert_eq!(node.ask(&request(&format!("start {k}"))).await.value(), format!("start {k}"));
    }
    until("the log says it", WAIT_MAX, async || node.log_count(STORE_AWAY) == 1).await;
    let url = format!("http://{}", node.addrs.admin);
    let status = hopcache(&["status"], &[("HOPCACHE_ADMIN_URL", &url)]);
    let shown = String::from_utf8(status.stdout).unwrap();
    assert!(
        status.status.success() && shown.contains("store") && shown.contains("cannot be reached"),
        "{shown}"
    );
    let redis = RedisServer::with(Options { port: Some(port), ..Options::default() }).await;
    node.wait_until_well().await;
    until("the log says that it answers", WAIT_MAX, async || node.log_count("the store answers again") == 1)
        .await;
    assert_eq!(node.log_count(STORE_AWAY), 1, "logged more than once: {}", node.log());
    let reply = node.ask(&request("start after")).await;
    assert!(reply.header("cache-status").contains("; stored"), "{reply}");
    redis.committed().await;
    assert_eq!(redis.keys("hopcache:*:e").len(), 1);
    say("start without Redis: ready, degraded [store], answered; found by itself when it came");
}

/// Ready, and degraded before the first request. Requests get 503. Recovers by itself, without a request.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_neo4j_at_the_start_a_node_says_so_and_finds_it_later() {
    let redis = RedisServer::start().await;
    let wire = TcpProxy::start(neo4j_addr()).await;
    wire.set(Mode::Refuse);
    let node = Lone::start(&Spec::on(&redis.uri()).behind(wire.addr())).await;
    let why = node.wait_until_degraded("origin").await;
    assert!(why.contains("Neo4j cannot be reached"), "{why}");
    assert_eq!(node.count("hopcache_degraded", "part=\"origin\"").await, 1.0);
    let reply = node.ask(&request("start cold")).await;
    assert_eq!((reply.status, reply.header("retry-after")), (503, "1"), "{reply}");
    assert_eq!(reply.json()["errors"][0]["code"], "Hopcache.TransientError.OriginUnreachable");
    until("the log says it", WAIT_MAX, async || node.log_count("Neo4j cannot be reached") == 1).await;
    assert!(wire.connects() > 0, "it was tried");
    wire.set(Mode::Pass);
    node.wait_until_well().await;
    until("the log says that it answers", WAIT_MAX, async || {
        node.log_count("Neo4j can be reached again") == 1
    })
    .await;
    let reply = node.ask(&request("start cold")).await;
    assert!(reply.header("cache-status").contains("; stored"), "{reply}");
    say("start without Neo4j: ready, degraded [origin] before any request, 503; back by itself without one");
}

/// A user of one test, taken out of Neo4j with it.
struct OwnUser(String);

impl Drop for OwnUser {
    fn drop(&mut self) {
        let name = self.0.clone();
        let dropped = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(at_system(&format!("DROP USER {name} IF EXISTS")));
        });
        let _ = dropped.join();
    }
}

/// Runs a statement on Neo4j's system database, past hopcache.
async fn at_system(statement: &str) {
    let url = environment("HOPCACHE_TEST_NEO4J_HTTP");
    let addr = url.trim_start_matches("http://").trim_end_matches('/').parse().unwrap();
    let text = String::from_utf8(http::query(statement, &json!({})).to_vec()).unwrap();
    let reply = http::ask(addr, text.replace("/db/neo4j/", "/db/system/").as_bytes()).await.unwrap();
    assert_eq!(reply.status, 202, "{reply}");
}

/// Service mode with a wrong password. Clients get no refusal of their own credentials, the log tells the operator what
/// to change, and the node does not cause Neo4j's lock-out again and again. When the user's password becomes the
/// file's, the node recovers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_password_of_the_service_is_the_operators_to_mend() {
    let redis = RedisServer::start().await;
    let nanos = std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos();
    let user = OwnUser(format!("hcstart{nanos}"));
    let name = &user.0;
    at_system(&format!("CREATE USER {name} SET PASSWORD 'the old password' CHANGE NOT REQUIRED")).await;
    let secret = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(secret.path(), "the new password\n").unwrap();
    let mut spec = Spec::on(&redis.uri());
    spec.origin +=
        &format!("\nauth = \"service\"\nuser = \"{name}\"\npassword_file = \"{}\"", secret.path().display());
    let node = Lone::start(&spec).await;
    let why = node.wait_until_degraded("origin").await;
    assert!(why.contains("origin.user") && why.contains("origin.password_file"), "{why}");
    until("the log says it", WAIT_MAX, async || node.log_count("refuses this node's log-on") == 1).await;
    assert!(node.log().contains("Neo.ClientError.Security.Unauthorized"), "{}", node.log());
    assert!(!node.log().contains("the new password"), "a password is in the log");
    let reply = node.ask(&request("service")).await;
    say(&format!(
        "service mode, wrong password: clients get {} {}",
        reply.status,
        String::from_utf8_lossy(&reply.body)
    ));
    assert_eq!(reply.status, 503, "the client's credentials are not the wrong ones: {reply}");
    at_system(&format!("ALTER USER {name} SET PASSWORD 'the new password'")).await;
    node.wait_until_well().await;
    until("it answers", WAIT_MAX, async || node.ask(&request("service")).await.status == 202).await;
    assert!(node.ask(&request("service")).await.is_hit());
    assert_eq!(node.log_count("refuses this node's log-on"), 1, "{}", node.log());
    // Changed again, when all is well: the next connection that is opened is refused.
    at_system(&format!("ALTER USER {name} SET PASSWORD 'a third password'")).await;
    let mut round = 0;
    until("a new log-on is refused", WAIT_MAX, async || {
        round += 1;
        let slow = (0..3).map(|each| {
            let text = format!("UNWIND range(1, 300000) AS x RETURN sum(x) AS s, '{round} {each}' AS what");
            (node.addrs.client, http::query(&text, &json!({})))
        });
        http::crowd(slow.collect()).await;
        node.ready().await["degraded"] == json!(["origin"])
    })
    .await;
    let why = node.wait_until_degraded("origin").await;
    assert!(why.contains("origin.user") && why.contains("origin.password_file"), "{why}");
    assert_eq!(node.ask(&request("refused")).await.status, 503);
    assert!(node.ask(&request("service")).await.is_hit(), "hits go on");
    until("the log says it again", WAIT_MAX, async || node.log_count("refuses this node's log-on") == 2)
        .await;
    at_system(&format!("ALTER USER {name} SET PASSWORD 'the new password'")).await;
    node.wait_until_well().await;
    until("it answers", WAIT_MAX, async || node.ask(&request("refused")).await.status == 202).await;
    until("the log says it again", WAIT_MAX, async || node.log_count("takes this node's log-on again") == 2)
        .await;
}

/// A wrong password of Redis at the start: the node serves and has no exit code. `store/acl.rs` has the log.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_redis_password_at_the_start_is_no_reason_not_to_serve() {
    let redis = RedisServer::with(Options::args(&["--requirepass", "right"])).await;
    let node = Lone::start(&Spec::on(&format!("redis://:wrong@{}", redis.addr()))).await;
    until("it says why", WAIT_MAX, async || {
        node.ready().await["why"]["store"].to_string().contains("check user and password in store.uri")
    })
    .await;
    assert_eq!(node.ask(&request("start wrong")).await.value(), "start wrong");
    let url = format!("http://{}", node.addrs.admin);
    let shown = hopcache(&["status", "--json"], &[("HOPCACHE_ADMIN_URL", &url)]);
    let shown: serde_json::Value = serde_json::from_slice(&shown.stdout).unwrap();
    assert_eq!(shown["health"]["degraded"], json!(["store"]));
    assert!(shown["health"]["why"]["store"].to_string().contains("store.uri"), "{shown}");
    assert!(!node.log().contains(":wrong"), "the password is in the log");
}
