//! HAProxy before the nodes of a cluster, with the shipped `cluster/haproxy/haproxy.cfg`. Only the lines that name the
//! nodes are changed.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::Context;

use hopcache_testbed::cluster::TestCluster;
use hopcache_testbed::process::{Process, free_addrs, wait_until};

const PROGRAMS: [&str; 2] = ["/usr/sbin/haproxy", "/usr/local/sbin/haproxy"];
const SHIPPED: &str = include_str!("../../../cluster/haproxy/haproxy.cfg");
/// Over three probes, one each half second, of the shipped file: it has seen every node.
const PROBED: Duration = Duration::from_secs(2);

/// A load balancer, gone when dropped.
pub(crate) struct Balancer {
    pub(crate) addr: SocketAddr,
    _process: Process,
    file: PathBuf,
}

impl Balancer {
    pub(crate) fn start(cluster: &TestCluster) -> anyhow::Result<Self> {
        let addrs = free_addrs(IpAddr::from([127, 0, 0, 1]), 3)?;
        let addr = addrs[0];
        let file = std::env::temp_dir().join(format!("hopcache-haproxy-{}.cfg", std::process::id()));
        std::fs::write(&file, config(cluster))?;
        let program = PROGRAMS.iter().find(|path| Path::new(path).exists()).unwrap_or(&"haproxy");
        let mut command = Command::new(program);
        // In the foreground, so that it ends with its owner.
        command.arg("-db").arg("-f").arg(&file);
        command.env("BALANCER_BIND", addr.to_string()).env("BALANCER_METRICS_BIND", addrs[1].to_string());
        command.env("BALANCER_BOLT_BIND", addrs[2].to_string());
        let process =
            Process::start(&mut command, &file.with_extension("log")).context("apt-get install haproxy")?;
        wait_until("haproxy listens", || std::net::TcpStream::connect(addr).is_ok())?;
        std::thread::sleep(PROBED);
        Ok(Self { addr, _process: process, file })
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.file);
        let _ = std::fs::remove_file(self.file.with_extension("log"));
    }
}

fn config(cluster: &TestCluster) -> String {
    let is_server = |line: &&str| line.starts_with("    server node-");
    let mut text = String::new();
    let mut nodes = [Some(&cluster.nodes), Some(&cluster.nodes)];
    for line in SHIPPED.lines() {
        if !is_server(&line) {
            text.push_str(&format!("{line}\n"));
            continue;
        }
        // All of them in the place of the first of their backend.
        let is_bolt = line.ends_with(":7478\"");
        for node in nodes[usize::from(is_bolt)].take().into_iter().flatten() {
            text.push_str(&format!(
                "    server {} {} addr {} port {}\n",
                node.name,
                if is_bolt { node.bolt } else { node.client },
                node.admin.ip(),
                node.admin.port()
            ));
        }
    }
    text
}
