//! Names, addresses and files of a cluster of plain processes. This module starts nothing.
//!
//! Each node has its own address in 127.0.0.0/8 and the documented ports. The address is derived from the repository's
//! path, so the clusters of two work trees do not meet. Each node also has its own group id: Linux sends packets
//! between loopback addresses with the source 127.0.0.1, so a packet rule can tell nodes apart only by the sender's
//! group.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

pub(crate) const NODES: [&str; 3] = ["node-a", "node-b", "node-c"];
pub(crate) const BALANCER: &str = "balancer";
pub(crate) const REDIS: &str = "redis";
pub(crate) const NEO4J: &str = "neo4j";
/// Runs only for the dashboard.
pub(crate) const PROMETHEUS: &str = "prometheus";
/// The cluster of `cargo xtask cluster`.
pub(crate) const CLUSTER: &str = "cluster";
/// The cluster of `cargo xtask dashboard --live`.
pub(crate) const LIVE: &str = "dashboard-live";
/// Group id of the first node. Distributions use lower ids. The group does not need to exist.
const GROUP: u32 = 77_001;

/// The folder and addresses of one cluster.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    pub(crate) folder: PathBuf,
    network: [u8; 2],
}

impl Layout {
    /// The cluster called `name` of this work tree.
    pub(crate) fn of(root: &Path, name: &str) -> Self {
        let folder = root.join("target").join(name);
        // FNV-1a gives the same digest for the same path in every version of Rust.
        let digest = folder
            .to_string_lossy()
            .bytes()
            .fold(0x811C_9DC5_u32, |digest, byte| (digest ^ u32::from(byte)).wrapping_mul(0x0100_0193));
        let [high, low, ..] = digest.to_be_bytes();
        Self { folder, network: [64 | (high & 63), low] }
    }

    /// The full name of a member: `a` and `node-a` are both `node-a`.
    pub(crate) fn member(name: &str) -> Result<&'static str> {
        let all = NODES.into_iter().chain([BALANCER, REDIS, NEO4J]);
        let found = all.into_iter().find(|each| *each == name || each.strip_prefix("node-") == Some(name));
        found.with_context(|| {
            format!("no member is called {name:?}: {}, {BALANCER}, {REDIS}, {NEO4J}", NODES.join(", "))
        })
    }

    /// The index of a node in [`NODES`].
    pub(crate) fn node(name: &str) -> Result<usize> {
        let member = Self::member(name)?;
        match NODES.iter().position(|node| *node == member) {
            Some(index) => Ok(index),
            None => bail!("{member} is no node"),
        }
    }

    pub(crate) fn host(&self, node: usize) -> Ipv4Addr {
        let last = u8::try_from(node + 1).unwrap_or(u8::MAX);
        Ipv4Addr::new(127, self.network[0], self.network[1], last)
    }

    pub(crate) fn clients(&self, node: usize) -> SocketAddr {
        SocketAddr::from((self.host(node), 7475))
    }

    pub(crate) fn peer(&self, node: usize) -> SocketAddr {
        SocketAddr::from((self.host(node), 7476))
    }

    pub(crate) fn admin(&self, node: usize) -> SocketAddr {
        SocketAddr::from((self.host(node), 7477))
    }

    pub(crate) fn balancer(&self) -> SocketAddr {
        SocketAddr::from((self.host(99), 7475))
    }

    pub(crate) fn balancer_metrics(&self) -> SocketAddr {
        SocketAddr::from((self.host(99), 8405))
    }

    pub(crate) fn prometheus(&self) -> SocketAddr {
        SocketAddr::from((self.host(109), 9090))
    }

    pub(crate) fn group(node: usize) -> u32 {
        GROUP + u32::try_from(node).unwrap_or(0)
    }

    /// A member's own folder.
    pub(crate) fn home(&self, member: &str) -> PathBuf {
        self.folder.join(member)
    }

    pub(crate) fn pid_file(&self, member: &str) -> PathBuf {
        self.home(member).join("pid")
    }

    pub(crate) fn log(&self, member: &str) -> PathBuf {
        self.folder.join(format!("{member}.log"))
    }

    /// Name of this cluster's chains of packet rules. iptables allows 28 characters.
    pub(crate) fn chain(&self) -> String {
        format!("HOPCACHE-{}-{}", self.network[0], self.network[1])
    }

    /// Whether `up --compose` made this cluster.
    pub(crate) fn is_compose(&self) -> bool {
        self.folder.join("compose").exists()
    }

    /// Writes `text` to the file `what` of the cluster's folder.
    pub(crate) fn note(&self, what: &str, text: &str) -> Result<()> {
        std::fs::create_dir_all(&self.folder)
            .and_then(|()| std::fs::write(self.folder.join(what), text))
            .with_context(|| format!("cannot write to {}", self.folder.display()))
    }

    /// The text that [`Self::note`] wrote, if any.
    pub(crate) fn noted(&self, what: &str) -> Option<String> {
        std::fs::read_to_string(self.folder.join(what)).ok()
    }

    pub(crate) fn remove(&self) -> Result<()> {
        match std::fs::remove_dir_all(&self.folder) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(error).with_context(|| format!("cannot remove {}", self.folder.display()))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_member_has_an_address_and_work_trees_do_not_meet() {
        let one = Layout::of(Path::new("/work/one"), "cluster");
        let other = Layout::of(Path::new("/work/other"), "cluster");
        assert!((0..3).all(|node| one.host(node).is_loopback() && one.host(node) != other.host(node)));
        assert_ne!(one.host(0), one.host(1));
        assert_ne!(one.chain(), other.chain());
        assert!(one.chain().len() <= 28);
    }

    #[test]
    fn a_letter_names_a_node_and_an_error_lists_the_right_names() {
        assert_eq!(Layout::member("b").unwrap(), "node-b");
        assert_eq!(Layout::node("node-c").unwrap(), 2);
        assert!(Layout::member("d").unwrap_err().to_string().contains("node-a, node-b, node-c"));
        assert!(Layout::node("redis").is_err());
    }
}
