//! The real HAProxy with `cluster/haproxy/haproxy.cfg` before a test's nodes; it ends with the test. Only the lines
//! that name the nodes are changed, because tests have no fixed ports.

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
/// Not on every user's path.
const PROGRAM: &str = "/usr/sbin/haproxy";

pub struct Haproxy {
    pub addr: SocketAddr,
    child: Child,
    dir: tempfile::TempDir,
}

impl Haproxy {
    pub async fn before(nodes: &[NodeProcess]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("haproxy.cfg");
        std::fs::write(&file, rendered(&std::fs::read_to_string(SHIPPED).unwrap(), nodes)).unwrap();
        let local = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
        let ports = free_ports(2);
        let log = std::fs::File::create(dir.path().join("log")).unwrap();
        let program = if Path::new(PROGRAM).exists() { PROGRAM } else { "haproxy" };
        let child = Command::new(program)
            .args(["-db", "-f"])
            .arg(&file)
            .env("BALANCER_BIND", local(ports[0]).to_string())
            .env("BALANCER_METRICS_BIND", local(ports[1]).to_string())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .expect("HAProxy, which cargo xtask test installs");
        let haproxy = Self { addr: local(ports[0]), child, dir };
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
    let server = |node: &NodeProcess| {
        format!("    server {} {} port {}", node.name, node.addrs.client, node.addrs.admin.port())
    };
    let mut own = Some(nodes.iter().map(server).collect::<Vec<_>>());
    let lines = shipped.lines().flat_map(|line| match line.starts_with(SERVER) {
        // All of them in the place of the first.
        true => own.take().unwrap_or_default(),
        false => vec![line.to_owned()],
    });
    let lines: Vec<String> = lines.collect();
    assert!(own.is_none(), "{SHIPPED} names no node");
    lines.join("\n") + "\n"
}
