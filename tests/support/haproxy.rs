//! The real HAProxy with `cluster/haproxy/haproxy.cfg` before a test's nodes; it ends with the test. Only the lines
//! that name the nodes are changed, because tests have no fixed ports.
//!
//! For Bolt the nodes have to list it: [`LISTED`].

use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

use super::process::{NodeProcess, free_ports};
use super::until;

const SHIPPED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../cluster/haproxy/haproxy.cfg");
/// Begins each line that names a node.
const SERVER: &str = "    server node-";
/// Ends such a line of the backend for Bolt.
const BOLT_SERVER: &str = ":7478\"";
/// Not on every user's path.
const PROGRAM: &str = "/usr/sbin/haproxy";

/// Lines of `[node]` for nodes behind it, as in `cluster/config/node.toml`: its address is listed, and clients are told the address
/// that they have dialled.
pub const LISTED: &str = "proxy_protocol = [\"127.0.0.1\"]\nbolt_advertise = []";

pub struct Haproxy {
    pub addr: SocketAddr,
    /// Where it takes Bolt.
    pub bolt: SocketAddr,
    child: Child,
    dir: tempfile::TempDir,
}

impl Haproxy {
    pub async fn before(nodes: &[NodeProcess]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("haproxy.cfg");
        std::fs::write(&file, rendered(&std::fs::read_to_string(SHIPPED).unwrap(), nodes)).unwrap();
        let local = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
        let ports = free_ports(3);
        let log = std::fs::File::create(dir.path().join("log")).unwrap();
        let program = if Path::new(PROGRAM).exists() { PROGRAM } else { "haproxy" };
        let child = Command::new(program)
            .args(["-db", "-f"])
            .arg(&file)
            .env("BALANCER_BIND", local(ports[0]).to_string())
            .env("BALANCER_METRICS_BIND", local(ports[1]).to_string())
            .env("BALANCER_BOLT_BIND", local(ports[2]).to_string())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .expect("HAProxy, which cargo xtask test installs");
        let haproxy = Self { addr: local(ports[0]), bolt: local(ports[2]), child, dir };
        until("HAProxy listens", Duration::from_secs(10), async || {
            tokio::net::TcpStream::connect(haproxy.addr).await.is_ok()
        })
        .await;
        haproxy
    }

    /// HAProxy's log so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Haproxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            let _ = std::io::stderr().write_all(format!("--- HAProxy's log\n{}", self.log()).as_bytes());
        }
    }
}

fn rendered(shipped: &str, nodes: &[NodeProcess]) -> String {
    let server = |node: &NodeProcess, is_bolt: bool| {
        let addr = if is_bolt { node.addrs.bolt } else { node.addrs.client };
        format!("    server {} {addr} port {}", node.name, node.addrs.admin.port())
    };
    let mut named = [false; 2];
    let lines = shipped.lines().flat_map(|line| {
        if !line.starts_with(SERVER) {
            return vec![line.to_owned()];
        }
        // All of them in the place of the first of their backend.
        let is_bolt = line.ends_with(BOLT_SERVER);
        match std::mem::replace(&mut named[usize::from(is_bolt)], true) {
            true => Vec::new(),
            false => nodes.iter().map(|node| server(node, is_bolt)).collect(),
        }
    });
    let lines: Vec<String> = lines.collect();
    assert_eq!(named, [true; 2], "{SHIPPED} has two backends that name nodes");
    lines.join("\n") + "\n"
}
