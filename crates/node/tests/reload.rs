//! D4: SIGHUP and `POST /admin/v1/reload` read the configuration again, and end no node.

#![expect(
    clippy::unwrap_used,
    reason = "a test ends at the first surprise; clippy knows #[test] functions only"
)]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};

use serde_json::Value;

/// A node of the sample graph with a configuration file, and its log.
struct Node {
    child: Child,
    log: BufReader<ChildStderr>,
    admin: String,
    file: PathBuf,
    base: String,
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Node {
    /// The ports are free when the node is started. Another process that takes one meanwhile makes the test fail, not pass.
    fn start(folder: &Path, settings: &str) -> Self {
        let ports: Vec<TcpListener> = (0..4).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        let port = |at: usize| ports[at].local_addr().unwrap();
        let base = format!(
            "[node]\nclient_addr = \"{}\"\npeer_addr = \"{}\"\nadmin_addr = \"{}\"\nbolt_addr = \"{}\"\n",
            port(0),
            port(1),
            port(2),
            port(3)
        );
        let admin = port(2).to_string();
        drop(ports);
        let file = folder.join("node.toml");
        std::fs::write(&file, format!("{base}{settings}")).unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_hopcache"))
            .args(["serve", "--sample", "--config", file.to_str().unwrap()])
            .env_clear()
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let log = BufReader::new(child.stderr.take().unwrap());
        let mut node = Self { child, log, admin, file, base };
        node.until("serving");
        node
    }

    fn write(&self, settings: &str) {
        std::fs::write(&self.file, format!("{}{settings}", self.base)).unwrap();
    }

    /// Reads the log until a line has this text, and returns the line.
    fn until(&mut self, text: &str) -> String {
        let mut seen = String::new();
        loop {
            let mut line = String::new();
            assert!(self.log.read_line(&mut line).unwrap() > 0, "the log ended before {text:?}:\n{seen}");
            if line.contains(text) {
                return line;
            }
            seen.push_str(&line);
        }
    }

    fn hang_up(&self) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-HUP", &pid]).status().unwrap().success());
    }

    fn ask(&self, method: &str, path: &str) -> (u16, Value) {
        let mut stream = TcpStream::connect(&self.admin).unwrap();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
            self.admin
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
        let body = answer.split_once("\r\n\r\n").unwrap().1;
        (status, serde_json::from_str(body).unwrap_or_default())
    }

    /// Waits until the node has joined, and loaded the sample graph.
    fn wait_until_ready(&self) {
        while self.ask("GET", "/readyz").0 != 200 {
            // tidy: poll interval
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }

    fn in_force(&self, section: &str, key: &str) -> Value {
        self.ask("GET", "/admin/v1/config").1[section][key]["value"].clone()
    }
}

fn keys(answer: &Value, list: &str) -> Vec<String> {
    answer[list].as_array().unwrap().iter().map(|change| change["key"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_hangup_and_a_reload_read_the_configuration_again_and_end_no_node() {
    let folder = tempfile::tempdir().unwrap();
    let mut node = Node::start(folder.path(), "[entry]\nttl = \"60s\"\n");

    node.write("memory = \"64MiB\"\n[entry]\nttl = \"7s\"\n[log]\nlevel = \"debug\"\n");
    let (status, planned) = node.ask("POST", "/admin/v1/reload?dry_run");
    assert_eq!((status, &planned["dry_run"]), (200, &Value::Bool(true)));
    assert_eq!(node.in_force("entry", "ttl"), "1m", "a dry run changes nothing");
    let (status, done) = node.ask("POST", "/admin/v1/reload");
    assert_eq!(status, 200, "{done}");
    assert_eq!(
        (keys(&done, "changed"), keys(&done, "needs_restart")),
        (keys(&planned, "changed"), keys(&planned, "needs_restart"))
    );
    assert_eq!(keys(&done, "changed"), ["entry.ttl", "log.level"]);
    assert_eq!(keys(&done, "needs_restart"), ["node.memory"]);
    assert_eq!(node.in_force("entry", "ttl"), "7s");
    assert_eq!(node.in_force("node", "memory"), "256MiB", "it stays until a restart");
    node.until("this setting changes only when the node starts again");

    // A wrong file changes nothing, and says what is wrong.
    node.write("[entry]\nttl = \"9 parsecs\"\ngrase = 1.0\n");
    let (status, refused) = node.ask("POST", "/admin/v1/reload");
    let detail = refused["detail"].as_str().unwrap();
    assert_eq!(status, 422);
    assert!(detail.contains("entry.ttl") && detail.contains("did you mean entry.grace"), "{detail}");
    node.until("nothing was changed");
    node.hang_up();
    let line = node.until("nothing was changed");
    assert!(line.contains("entry.grase"), "{line}");
    assert_eq!(node.in_force("entry", "ttl"), "7s");

    // The signal does as the request.
    node.write("[entry]\nttl = \"8s\"\n");
    node.hang_up();
    node.until("key=\"entry.ttl\"");
    assert_eq!(node.in_force("entry", "ttl"), "8s");
    node.wait_until_ready();
    assert!(node.child.try_wait().unwrap().is_none());
}

#[test]
fn a_token_is_rotated_without_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token");
    std::fs::write(&token, "first token of this node").unwrap();
    let mut node = Node::start(folder.path(), &format!("admin_token_file = \"{}\"\n", token.display()));
    let status_with = |node: &Node, token: &str| {
        let done = Command::new(env!("CARGO_BIN_EXE_hopcache"))
            .args(["status", "--json"])
            .env_clear()
            .env("HOPCACHE_ADMIN_URL", format!("http://{}", node.admin))
            .env("HOPCACHE_ADMIN_TOKEN", token)
            .output()
            .unwrap();
        done.status.success()
    };
    node.wait_until_ready();
    assert!(status_with(&node, "first token of this node"));
    std::fs::write(&token, "second token of this node").unwrap();
    node.hang_up();
    node.until("node.admin_token_file");
    assert!(status_with(&node, "second token of this node"));
    assert!(!status_with(&node, "first token of this node"), "the token before is no key any more");
}
