//! Names, addresses and files of a cluster of plain processes. It starts nothing.
//!
//! Each node has an address of its own in 127.0.0.0/8, taken from the repository's path, so that clusters of two work trees
//! do not meet, and ports are the documented ones. Each has a group id of its own as well: packets of one loopback
//! address to another leave with 127.0.0.1 as their source, and only their sender's group tells whose they are.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

pub(crate) const NODES: [&str; 3] = ["node-a", "node-b", "node-c"];
pub(crate) const BALANCER: &str = "balancer";
pub(crate) const REDIS: &str = "redis";
pub(crate) const NEO4J: &str = "neo4j";
/// Only where the dashboard is drawn.
pub(crate) const PROMETHEUS: &str = "prometheus";
/// The cluster that one starts by hand.
pub(crate) const CLUSTER: &str = "cluster";
/// The one of `cargo xtask dashboard --live`.
pub(crate) const LIVE: &str = "dashboard-live";
/// Group of the first node. No group of a distribution is so high, and none needs to exist.
const GROUP: u32 = 77_001;

/// Where a cluster is.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) folder: PathBuf,
    network: [u8; 2],
}

impl Place {
    /// The cluster called `name` of this work tree.
    pub(crate) fn of(root: &Path, name: &str) -> Self {
        let folder = root.join("target").join(name);
        // FNV-1a: the same for the same path, in any version.
        let digest = folder
            .to_string_lossy()
            .bytes()
            .fold(0x811C_9DC5_u32, |digest, byte| (digest ^ u32::from(byte)).wrapping_mul(0x0100_0193));
        let [high, low, ..] = digest.to_be_bytes();
        Self { folder, network: [64 | (high & 63), low] }
    }

    /// The full name of a member: `a` is `node-a`.
    pub(crate) fn member(name: &str) -> Result<&'static str> {
        let all = NODES.into_iter().chain([BALANCER, REDIS, NEO4J]);
        let found = all.into_iter().find(|each| *each == name || each.strip_prefix("node-") == Some(name));
        found.with_context(|| {
            format!("no member is called {name:?}: {}, {BALANCER}, {REDIS}, {NEO4J}", NODES.join(", "))
        })
    }

    /// The place of a node among [`NODES`].
    pub(crate) fn node(name: &str) -> Result<usize> {
        let member = Self::member(name)?;
        match NODES.iter().position(|node| *node == member) {
            Some(place) => Ok(place),
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

    /// Name of this cluster's chains of packet rules; at most 28 characters.
    pub(crate) fn chain(&self) -> String {
        format!("HOPCACHE-{}-{}", self.network[0], self.network[1])
    }

    /// Whether `up --compose` made this cluster.
    pub(crate) fn is_compose(&self) -> bool {
        self.folder.join("compose").exists()
    }

    pub(crate) fn note(&self, what: &str, text: &str) -> Result<()> {
        std::fs::create_dir_all(&self.folder)
            .and_then(|()| std::fs::write(self.folder.join(what), text))
            .with_context(|| format!("cannot write to {}", self.folder.display()))
    }

    /// What was noted.
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
        let one = Place::of(Path::new("/work/one"), "cluster");
        let other = Place::of(Path::new("/work/other"), "cluster");
        assert!((0..3).all(|node| one.host(node).is_loopback() && one.host(node) != other.host(node)));
        assert_ne!(one.host(0), one.host(1));
        assert_ne!(one.chain(), other.chain());
        assert!(one.chain().len() <= 28);
    }

    #[test]
    fn a_letter_is_enough_for_a_node_and_a_wrong_name_is_told_the_right_ones() {
        assert_eq!(Place::member("b").unwrap(), "node-b");
        assert_eq!(Place::node("node-c").unwrap(), 2);
        assert!(Place::member("d").unwrap_err().to_string().contains("node-a, node-b, node-c"));
        assert!(Place::node("redis").is_err());
    }
}
