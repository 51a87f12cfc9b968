//! HAProxy before the nodes of an arena. It asks each node's `readyz` and retries only where no request was
//! sent, so that no write can run twice. A connection to a node is made for each request: a kept one may be closed by
//! a node that leaves just when it is used again, and that request must not be repeated.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use crate::arena::Arena;
use crate::process::{Process, free_addrs, wait_until};

const PROGRAMS: [&str; 2] = ["/usr/sbin/haproxy", "/usr/local/sbin/haproxy"];
/// Pause between two health checks: a node that leaves has to serve for twice as long. As in
/// `cluster/haproxy`, and so is all that decides where a request goes.
const CHECK_EVERY_MS: u32 = 500;

/// A load balancer, gone when dropped.
pub(super) struct Balancer {
    pub(super) addr: SocketAddr,
    _process: Process,
    file: PathBuf,
}

impl Balancer {
    pub(super) fn start(arena: &Arena) -> anyhow::Result<Self> {
        let addr = free_addrs(1)?[0];
        let file = std::env::temp_dir().join(format!("hopcache-haproxy-{}.cfg", std::process::id()));
        std::fs::write(&file, config(arena, addr))?;
        let program = PROGRAMS.iter().find(|path| Path::new(path).exists()).unwrap_or(&"haproxy");
        let mut command = Command::new(program);
        // In the foreground, so that it goes with its owner.
        command.arg("-db").arg("-f").arg(&file);
        let process =
            Process::start(&mut command, &file.with_extension("log")).context("apt-get install haproxy")?;
        wait_until("haproxy listens", || std::net::TcpStream::connect(addr).is_ok())?;
        // Its first checks.
        std::thread::sleep(std::time::Duration::from_millis(u64::from(CHECK_EVERY_MS) * 4));
        Ok(Self { addr, _process: process, file })
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.file);
        let _ = std::fs::remove_file(self.file.with_extension("log"));
    }
}

fn config(arena: &Arena, addr: SocketAddr) -> String {
    let mut text = format!(
        "global\n  maxconn 8000\ndefaults\n  mode http\n  timeout connect 1s\n  timeout client 60s\n  timeout server 60s\n  timeout check 900ms\n  retries 3\n  option redispatch 1\n  retry-on conn-failure\n  option http-server-close\nfrontend clients\n  bind {addr}\n  default_backend nodes\nbackend nodes\n  balance roundrobin\n  option httpchk GET /readyz\n  default-server check inter {CHECK_EVERY_MS}ms fall 2 rise 2 observe layer4 error-limit 2 on-error mark-down\n"
    );
    for node in &arena.nodes {
        text.push_str(&format!(
            "  server {} {} addr {} port {}\n",
            node.name,
            node.client,
            node.admin.ip(),
            node.admin.port()
        ));
    }
    text
}
