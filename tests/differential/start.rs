//! Starts one real node (`hopcache serve`) on the real Neo4j, and ends it. A node that panicked fails
//! the test that started it (promise I13).

use std::fs::File;
use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::differential::http::{Answer, Request};

/// Longest wait for a node's start, or for an event.
pub const WAIT_MAX: Duration = Duration::from_secs(30);

/// A variable that `cargo xtask test` sets.
pub fn setting(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set: run cargo xtask test"))
}

/// Where the real server speaks HTTP.
pub fn neo4j() -> SocketAddr {
    setting("HOPCACHE_TEST_NEO4J_HTTP").trim_start_matches("http://").parse().unwrap()
}

/// Asks until `done` holds, or fails with `what`.
pub fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + WAIT_MAX;
    while !done() {
        assert!(Instant::now() < deadline, "not within {WAIT_MAX:?}: {what}");
        // tidy: poll interval
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The settings of a node.
pub struct Setup {
    pub origin: String,
    pub store: String,
    /// `origin.timeout`.
    pub run_timeout: &'static str,
    /// Lines of `[node]` that say how it leaves.
    pub leaving: &'static str,
    /// Further lines of the configuration, whole sections.
    pub more: &'static str,
}

impl Default for Setup {
    fn default() -> Self {
        let (origin, store) = (setting("HOPCACHE_TEST_NEO4J_BOLT"), "memory:".to_owned());
        Self { origin, store, run_timeout: "10s", leaving: "drain = \"2s\"", more: "" }
    }
}

/// A running node.
pub struct Node {
    child: Child,
    directory: tempfile::TempDir,
    pub client: SocketAddr,
    pub admin: SocketAddr,
}

impl Node {
    /// A node on the real Neo4j with its own store.
    pub fn start() -> Self {
        Self::with(&Setup::default())
    }

    /// A node that serves, even if it reaches neither store nor origin.
    pub fn with(setup: &Setup) -> Self {
        // A port that was free a moment ago may be taken by another test: then the next one.
        (0..5).find_map(|_| Self::attempt(setup)).expect("a node that starts")
    }

    fn attempt(setup: &Setup) -> Option<Self> {
        let held: Vec<TcpListener> = (0..3).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        let ports: Vec<SocketAddr> = held.iter().map(|port| port.local_addr().unwrap()).collect();
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("node.toml");
        let (client, peer, admin) = (ports[0], ports[1], ports[2]);
        let Setup { origin, store, run_timeout, leaving, more } = setup;
        let text = format!(
            "[node]\nname = \"node-a\"\nclient_addr = \"{client}\"\npeer_addr = \"{peer}\"\n\
             admin_addr = \"{admin}\"\nbolt_addr = \"\"\n{leaving}\n[origin]\nuri = \"{origin}\"\ntimeout = \"{run_timeout}\"\n\
             [store]\nuri = \"{store}\"\n{more}\n"
        );
        std::fs::write(&file, text).unwrap();
        let log = File::create(directory.path().join("log")).unwrap();
        drop(held);
        let mut command = Command::new(env!("CARGO_BIN_EXE_hopcache"));
        command.args(["serve", "--config"]).arg(&file).env_clear();
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let mut node = Self { child: command.spawn().unwrap(), directory, client, admin };
        let mut is_ready = false;
        wait_until("a node that is ready, or has ended", || {
            is_ready = Request::get("/readyz").try_send(node.admin).is_some_and(|ready| ready.status == 200);
            is_ready || node.child.try_wait().unwrap().is_some()
        });
        if !is_ready {
            let log = node.log();
            assert!(log.contains("cannot listen"), "the node ended at once: {log}");
        }
        is_ready.then_some(node)
    }

    /// The node's log.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(self.directory.path().join("log")).unwrap()).into_owned()
    }

    /// Its configuration file.
    pub fn config(&self) -> std::path::PathBuf {
        self.directory.path().join("node.toml")
    }

    /// An answer of the admin listener, as JSON.
    pub fn admin(&self, path: &str) -> serde_json::Value {
        Request::get(path).send(self.admin).json()
    }

    /// A counter or gauge: the sum of its lines whose labels contain `label`.
    pub fn metric(&self, name: &str, label: &str) -> f64 {
        let text = Request::get("/metrics").send(self.admin).text();
        let lines = text.lines().filter(|line| line.starts_with(name) && line.contains(label));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    }

    /// Sends a statement as the administrator.
    pub fn ask(&self, statement: &str) -> Answer {
        Request::statement(statement).send(self.client)
    }

    /// The exit code, once the process has ended by itself.
    pub fn ended(&mut self) -> Option<i32> {
        let mut code = None;
        wait_until("the end of the node", || {
            code = self.child.try_wait().unwrap();
            code.is_some()
        });
        code.and_then(|status| status.code())
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if !std::thread::panicking() {
            let log = self.log();
            assert!(!log.contains("panicked"), "the node panicked: {log}");
        }
    }
}

/// An address on which nothing listens.
pub fn nowhere() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}
