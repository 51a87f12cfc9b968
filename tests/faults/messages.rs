//! The program's error messages: each names the cause, its place, and what to do.

use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::http::{self, get, post};
use crate::support::lone::{Lone, Spec};
use crate::support::process::{Addrs, NodeProcess, free_ports};
use crate::support::scripted_neo4j::ScriptedNeo4j;
use crate::support::until;

const WAIT_MAX: Duration = Duration::from_secs(20);

fn hopcache(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_hopcache")).args(args).env_clear().output().unwrap()
}

fn stderr(done: &Output) -> String {
    String::from_utf8(done.stderr.clone()).unwrap()
}

/// A program that is killed with its test.
struct Running(Child);

impl Running {
    fn start(args: &[&str], log: &std::path::Path) -> Self {
        let log = std::fs::File::create(log).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_hopcache"));
        let command = command.args(args).env_clear().stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        Self(command.spawn().unwrap())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The node's own log-on is refused: clients get this error, and not that Neo4j is away.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_service_user_is_not_an_absent_neo4j() {
    let neo4j = ScriptedNeo4j::start(&[("svc", "the-right-password")], Duration::ZERO).await;
    let secret = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(secret.path(), "the-wrong-password").unwrap();
    let config = format!(
        "[origin]\nuri = \"{}\"\nauth = \"service\"\nuser = \"svc\"\npassword_file = \"{}\"\n",
        neo4j.uri(),
        secret.path().display()
    );
    let dir = tempfile::tempdir().unwrap();
    let mut node = NodeProcess::new(dir.path(), "node-a", Addrs::free(1)[0], &config);
    node.start();
    node.wait_for_members(1).await;
    let body = json!({"statement": "RETURN $k AS k", "parameters": {"k": "one"}}).to_string();
    let reply = node.ask(&post("/db/neo4j/query/v2", "", &body)).await;
    let error = &reply.json()["errors"][0];
    assert_eq!(reply.status, 503, "{reply}");
    assert_eq!(error["code"], "Hopcache.TransientError.OriginLogOnRefused", "{reply}");
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("own log-on") && !message.contains("cannot be reached"), "{reply}");
    assert!(!reply.header("retry-after").is_empty(), "{reply}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_is_away_is_named_by_its_address() {
    let port = free_ports(1)[0];
    let spec = Spec {
        origin: "uri = \"embedded:\"".to_owned(),
        ..Spec::on(&format!("redis://someone:the-secret@127.0.0.1:{port}"))
    };
    let node = Lone::start(&spec).await;
    let why = node.wait_until_degraded("store").await;
    let address = format!("127.0.0.1:{port}");
    assert!(why.contains(&address), "{why}");
    until("the log says it", WAIT_MAX, async || {
        node.log().lines().any(|line| line.contains("the store cannot be reached") && line.contains(&address))
    })
    .await;
    assert!(!why.contains("the-secret") && !node.log().contains("the-secret"), "{}", node.log());
}

/// `hopcache query` reports that a port is not a client port.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_query_at_another_listener_says_why_it_failed() {
    let dir = tempfile::tempdir().unwrap();
    let addrs = Addrs::free(1)[0];
    let mut node = NodeProcess::new(dir.path(), "node-a", addrs, "[origin]\nuri = \"embedded:\"\n");
    node.start();
    node.wait_for_members(1).await;
    for (addr, status) in [(addrs.peer, "403"), (addrs.admin, "404")] {
        let url = format!("http://{addr}");
        let done = hopcache(&["query", "RETURN 1", "--url", &url]);
        let errors = stderr(&done);
        assert_eq!(done.status.code(), Some(1), "{errors}");
        for part in [url.as_str(), status, "node.client_addr"] {
            assert!(errors.contains(part), "no {part:?} in {errors:?}");
        }
    }
    let done = hopcache(&["query", "RETURN 1 AS one", "--url", &format!("http://{}", addrs.client)]);
    assert!(done.status.success(), "{}", stderr(&done));
}

/// No node serves the sample graph to everybody unless its configuration asks for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn serve_asks_which_neo4j_it_is_for() {
    let ports = free_ports(4);
    let addrs = ["client", "peer", "admin", "bolt"].iter().zip(&ports);
    let sets: Vec<String> =
        addrs.map(|(name, port)| format!("--set=node.{name}_addr=127.0.0.1:{port}")).collect();
    let sets: Vec<&str> = sets.iter().map(String::as_str).collect();
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    let mut bare = Running::start(&[&["serve"][..], &sets].concat(), &log);
    let ended = crate::support::value_within("it ends", WAIT_MAX, async || bare.0.try_wait().unwrap()).await;
    let log_text = std::fs::read_to_string(&log).unwrap();
    assert_eq!(ended.code(), Some(1), "{log_text}");
    assert!(log_text.contains("origin.uri") && log_text.contains("--sample"), "{log_text}");
    for flag in ["--sample", "--set=origin.uri=embedded:"] {
        let _serving = Running::start(&[&["serve", flag][..], &sets].concat(), &log);
        let addr = std::net::SocketAddr::from(([127, 0, 0, 1], ports[2]));
        until(&format!("{flag} serves"), WAIT_MAX, async || {
            http::ask(addr, &get("/readyz")).await.is_ok_and(|reply| reply.status == 200)
        })
        .await;
    }
    let both = hopcache(&["serve", "--sample", "--set=origin.uri=bolt://127.0.0.1:1"]);
    assert_eq!(both.status.code(), Some(2), "{}", stderr(&both));
}

/// Variables that orchestrators inject for a Service with a node's name, and a variable that lacks its second
/// underscore.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn variables_that_set_nothing_are_warned_about() {
    let ports = free_ports(4);
    let addrs = ["client", "peer", "admin", "bolt"].iter().zip(&ports);
    let sets: Vec<String> =
        addrs.map(|(name, port)| format!("--set=node.{name}_addr=127.0.0.1:{port}")).collect();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let log = std::fs::File::create(&path).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_hopcache"));
    command.args(["serve", "--set=origin.uri=embedded:"]).args(&sets).env_clear().stderr(log);
    command
        .env("HOPCACHE_NODE_A_SERVICE_HOST", "10.96.0.17")
        .env("HOPCACHE_NODE_A_PORT_7475_TCP", "tcp://10.96.0.17:7475");
    command.env("HOPCACHE_ENTRY_TTL", "a-value-that-nobody-shows");
    let _serving = Running(command.spawn().unwrap());
    let log_text = || std::fs::read_to_string(&path).unwrap();
    until("it serves", WAIT_MAX, async || log_text().contains("serving")).await;
    let log_text = log_text();
    for part in [
        "WARN",
        "HOPCACHE_NODE_A_SERVICE_HOST",
        "HOPCACHE_NODE_A_PORT_7475_TCP",
        "did you mean HOPCACHE_ENTRY__TTL?",
    ] {
        assert!(log_text.contains(part), "no {part:?} in {log_text}");
    }
    assert!(
        !log_text.contains("10.96.0.17") && !log_text.contains("a-value-that-nobody-shows"),
        "{log_text}"
    );
}

/// A `hopcache dev` and its first port. A node uses four of each ten ports, so another test may have one of them. Then
/// the program ends, and the test tries another block.
async fn start_dev(nodes: u16, log: &std::path::Path) -> (u16, Running) {
    const BLOCKS_MAX: u32 = 20;
    for _ in 0..BLOCKS_MAX {
        let base = free_ports(1)[0];
        let (nodes_text, base_text) = (nodes.to_string(), base.to_string());
        let mut dev = Running::start(&["dev", "--nodes", &nodes_text, "--base-port", &base_text], log);
        let is_up = crate::support::value_within("dev is ready or ends", WAIT_MAX, async || {
            if dev.0.try_wait().unwrap().is_some() {
                return Some(false);
            }
            for node in 0..nodes {
                let admin = std::net::SocketAddr::from(([127, 0, 0, 1], base + 10 * node + 2));
                http::ask(admin, &get("/readyz")).await.ok().filter(|reply| reply.status == 200)?;
            }
            Some(true)
        });
        if is_up.await {
            return (base, dev);
        }
    }
    panic!("no block of free ports after {BLOCKS_MAX} attempts: {}", std::fs::read_to_string(log).unwrap());
}

/// Each node of `hopcache dev` prints its ports.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_of_dev_shows_its_own_ports() {
    let dir = tempfile::tempdir().unwrap();
    let (base, _dev) = start_dev(2, &dir.path().join("log")).await;
    for (node, name) in ["node-a", "node-b"].iter().enumerate() {
        let port = base + 10 * u16::try_from(node).unwrap();
        let admin = std::net::SocketAddr::from(([127, 0, 0, 1], port + 2));
        let shown: Value = http::ask(admin, &get("/admin/v1/config")).await.unwrap().json();
        let node = &shown["node"];
        assert_eq!(node["name"]["value"], *name, "{node}");
        assert_eq!(node["client_addr"]["value"], format!("127.0.0.1:{port}"), "{node}");
        assert_eq!(node["admin_addr"]["value"], format!("127.0.0.1:{}", port + 2), "{node}");
        assert_eq!(node["client_addr"]["source"], "hopcache dev", "{node}");
        assert_eq!(shown["cluster"]["key"]["value"], "********", "{}", shown["cluster"]);
    }
}
