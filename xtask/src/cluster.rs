//! Three nodes as plain processes before Neo4j, with a Redis of their own, for `cargo xtask drivers frameworks`.
//!
//! Neo4j is the server of `cargo xtask services` or the server that the user named. `down` stops Neo4j only if `up`
//! started it. Each node has its own address in 127.0.0.0/8 and the documented ports. The address is derived from the
//! repository's path, so the clusters of two work trees do not meet.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::Value;

use crate::command::{finish, target};
use crate::http;
use crate::services::{self, process};

const NODES: [&str; 3] = ["node-a", "node-b", "node-c"];
/// Longest wait until a node is ready: a debug build on a busy machine. On an idle machine a node is ready in a second.
const READY_MAX: Duration = Duration::from_secs(30);

/// The cluster of a work tree.
pub(crate) struct Cluster {
    root: PathBuf,
    folder: PathBuf,
    /// Neo4j's address and password.
    pub(crate) neo4j: String,
    pub(crate) password: String,
    was_neo4j_started: bool,
}

impl Cluster {
    /// Starts the nodes, and waits until each is ready and sees all of them. `more`: further sections of the
    /// configuration. A cluster that an interrupted run left is ended first.
    pub(crate) fn up(root: &Path, more: &str) -> Result<Self> {
        let folder = root.join("target/frameworks-cluster");
        end(&folder)?;
        let mut build = Command::new("cargo");
        finish(build.current_dir(root).args(["build", "--quiet", "--package", "hopcache"]), "the build")?;
        let (server, was_neo4j_started) = services::neo4j_up(root)?;
        let neo4j = server.bolt.trim_start_matches("bolt://").to_owned();
        let password = server.password;
        let cluster = Self { root: root.to_owned(), folder, neo4j, password, was_neo4j_started };
        if let Err(error) = cluster.start(&server.bolt, more) {
            cluster.down()?;
            return Err(error);
        }
        Ok(cluster)
    }

    fn start(&self, origin: &str, more: &str) -> Result<()> {
        let start = Instant::now();
        let mut make = Command::new("sh");
        make.current_dir(&self.root).arg("cluster/make-secrets.sh").arg(self.folder.join("secrets"));
        finish(make.stdout(Stdio::null()), "make-secrets.sh")?;
        let redis = services::own_redis(&self.folder)?;
        let binary = target(&self.root).join("debug/hopcache").display().to_string();
        for (node, name) in NODES.iter().enumerate() {
            let home = self.folder.join(name);
            std::fs::create_dir_all(&home)?;
            let config = home.join("node.toml");
            std::fs::write(&config, self.config(node, origin, &redis, more))
                .context("cannot write node.toml")?;
            let serve = ["serve".to_owned(), "--config".to_owned(), config.display().to_string()];
            process::start(&binary, &serve, &home.join("pid"), &self.log(node))?;
        }
        for (node, name) in NODES.iter().enumerate() {
            process::wait_until(READY_MAX, || self.is_there(node))
                .with_context(|| format!("{name} is not ready:\n{}", process::log_tail(&self.log(node))))?;
        }
        println!("three nodes ready: {:.1} s", start.elapsed().as_secs_f64());
        Ok(())
    }

    fn config(&self, node: usize, origin: &str, redis: &str, more: &str) -> String {
        let at = |port| self.address(node, port);
        let seeds = [0, 1, 2].map(|node| format!("\"{}\"", self.address(node, 7476))).join(", ");
        format!(
            "[node]\nname = \"{}\"\nclient_addr = \"{}\"\npeer_addr = \"{}\"\nadmin_addr = \"{}\"\nbolt_addr = \"{}\"\nmemory = \"64MiB\"\n\
             [cluster]\nseeds = [{seeds}]\nkey_file = \"{}\"\n[store]\nuri = \"{redis}\"\n[origin]\nuri = \"{origin}\"\n{more}",
            NODES[node],
            at(7475),
            at(7476),
            at(7477),
            self.bolt(node),
            self.folder.join("secrets/cluster.key").display(),
        )
    }

    /// Whether a node is ready and has all nodes in its ring.
    fn is_there(&self, node: usize) -> bool {
        let admin = self.address(node, 7477);
        let members = || {
            let ring: Value = serde_json::from_str(&http::get(admin, "/admin/v1/ring").ok()?.body).ok()?;
            let members = ring["members"].as_array()?;
            Some(members.iter().filter(|member| member["state"] != "down").count())
        };
        http::get(admin, "/readyz").is_ok_and(|answer| answer.status == 200) && members() == Some(NODES.len())
    }

    /// Where a node speaks Bolt.
    pub(crate) fn bolt(&self, node: usize) -> SocketAddr {
        self.address(node, 7478)
    }

    fn address(&self, node: usize, port: u16) -> SocketAddr {
        // FNV-1a gives the same digest for the same path in every version of Rust.
        let bytes = self.folder.as_os_str().as_encoded_bytes().iter();
        let digest =
            bytes.fold(0x811C_9DC5_u32, |digest, byte| (digest ^ u32::from(*byte)).wrapping_mul(0x0100_0193));
        let [high, low, ..] = digest.to_be_bytes();
        let last = u8::try_from(node + 1).unwrap_or(u8::MAX);
        SocketAddr::from((Ipv4Addr::new(127, 64 | (high & 63), low, last), port))
    }

    fn log(&self, node: usize) -> PathBuf {
        self.folder.join(format!("{}.log", NODES[node]))
    }

    /// Ends everything that [`Self::up`] started, and removes its folder.
    pub(crate) fn down(&self) -> Result<()> {
        let ended = end(&self.folder);
        if self.was_neo4j_started { ended.and(services::neo4j_down(&self.root)) } else { ended }
    }
}

/// Ends the processes whose files are in the folder, and removes it. If a process could not be ended, the folder stays.
fn end(folder: &Path) -> Result<()> {
    if !folder.exists() {
        return Ok(());
    }
    for name in NODES {
        process::stop(name, &folder.join(name).join("pid"))?;
    }
    process::stop("redis", &services::own_redis_pid_file(folder))?;
    std::fs::remove_dir_all(folder).with_context(|| format!("cannot remove {}", folder.display()))
}
