//! Processes for runs with faults: nodes with their own address and user id, a store with a replica, and an origin
//! whose values name their run. `chaos` and the benchmarks of a living cluster share it. This module decides which
//! processes run. It does not decide which faults happen.
//!
//! | module | decides |
//! |---|---|
//! | [`fault`] | the kinds of fault |
//! | [`history`] | the record of a run |
//! | [`load`] | open-loop requests, and purges that change versions |
//! | [`origin`], [`store`], [`packet_filter`] | the origin, the store, and cuts |

pub mod fault;
pub mod history;
pub mod load;
pub mod origin;
pub mod packet_filter;
pub mod store;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, ensure};

use crate::node::{self, Node, Settings, all_may};
use crate::process::{Dir, free_addrs, hopcache_binary};
use crate::report::progress;
use history::Recorder;
use origin::{Origin, RunTime};
use packet_filter::{PacketFilter, Party, uid_of};
use store::Store;

/// Longest wait until a node is ready, or sees the others.
const SOON: Duration = Duration::from_secs(30);

/// The plan of a cluster. Everything else has the shipped defaults: prefetch is on.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Nodes.
    pub nodes: usize,
    /// `entry.ttl`.
    pub ttl: Duration,
    /// Longest run that a node waits for.
    pub timeout: Duration,
    /// How long the origin takes.
    pub run_time: RunTime,
    /// Of the origin's dice.
    pub seed: u64,
    /// Whether nodes are to be cut one from another, where that can be had.
    pub has_cuts: bool,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            nodes: 3,
            ttl: Duration::from_secs(60),
            timeout: Duration::from_secs(4),
            run_time: RunTime { least: Duration::from_millis(5), most: Duration::from_millis(40) },
            seed: 1,
            has_cuts: false,
        }
    }
}

/// Everything that runs.
pub struct TestCluster {
    /// All that have an address, running or not.
    pub nodes: Vec<Node>,
    /// The origin of the nodes.
    pub origin: Origin,
    /// See [`TestCluster::store`].
    pub store: Mutex<Store>,
    /// The record so far.
    pub recorder: Arc<Recorder>,
    /// `None` if this machine has no packet filter.
    pub rules: Option<PacketFilter>,
    /// Where nodes reach the store.
    pub store_addr: SocketAddr,
    /// The plan that it was made from.
    pub plan: Plan,
    _dir: Dir,
}

impl TestCluster {
    /// Nodes that are ready and see each other.
    pub async fn start(plan: Plan) -> anyhow::Result<Self> {
        ensure!(plan.nodes <= packet_filter::NODES_MAX, "at most {} nodes", packet_filter::NODES_MAX);
        let dir = Dir::new()?;
        all_may(&dir.0, 0o755)?;
        let recorder = Arc::new(Recorder::start());
        let origin = Origin::start(Arc::clone(&recorder), plan.run_time, plan.seed).await?;
        let store = Store::start(&dir.0).await?;
        let store_addr = store.addr();
        let addrs = addrs(plan.nodes)?;
        let parties: Vec<Party> =
            (0..plan.nodes).map(|node| Party { uid: uid_of(node), peer: addrs[4 * node] }).collect();
        let rules = plan.has_cuts.then(|| PacketFilter::open(&parties)).and_then(|opened| {
            let why =
                |error: &anyhow::Error| progress(&format!("no packet filter here, so no cuts: {error:#}"));
            opened.inspect_err(why).ok()
        });
        let settings = Settings {
            dir: &dir.0,
            binary: &open_copy(&hopcache_binary()?, &dir.0)?,
            node: "memory = \"64MiB\"\ndrain = \"8s\"\n",
            sections: &sections(&plan, origin.addr(), store_addr),
            is_apart: rules.is_some(),
        };
        let nodes = settings.nodes(&addrs)?;
        let cluster =
            Self { nodes, origin, store: Mutex::new(store), recorder, rules, store_addr, plan, _dir: dir };
        for node in &cluster.nodes {
            node.start()?;
        }
        cluster.all_agree(&(0..cluster.plan.nodes).collect::<Vec<_>>(), SOON).await?;
        Ok(cluster)
    }

    /// The store, to be broken.
    pub fn store(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fails if a process ended by itself, or has panicked.
    pub fn check_runs(&self) -> anyhow::Result<()> {
        self.nodes.iter().try_for_each(Node::check_runs)?;
        self.store().check_runs()
    }

    /// Waits until these nodes are ready and show one epoch and a ring of each other; how long that took.
    pub async fn all_agree(&self, nodes: &[usize], within: Duration) -> anyhow::Result<Duration> {
        let nodes: Vec<&Node> = nodes.iter().map(|node| &self.nodes[*node]).collect();
        node::all_agree(&nodes, within).await
    }
}

/// Four addresses for each node. Every run has its own part of 127.0.0.0/8, so several runs can be active at once.
fn addrs(nodes: usize) -> anyhow::Result<Vec<SocketAddr>> {
    let run = std::process::id();
    let octet = |value: u32| u8::try_from(value % 200 + 20).unwrap_or(20);
    let mut all = Vec::new();
    for node in 0..nodes {
        let ip = [127, octet(run / 200), octet(run), u8::try_from(node + 1)?];
        all.extend(free_addrs(ip.into(), 4)?);
    }
    Ok(all)
}

fn sections(plan: &Plan, origin: SocketAddr, store: SocketAddr) -> String {
    format!(
        "[origin]\nuri = \"bolt://{origin}\"\ntimeout = \"{}ms\"\n[store]\nuri = \"redis://{store}\"\n[entry]\nttl = \"{}ms\"\nstale_if_error = \"20s\"\n",
        plan.timeout.as_millis(),
        plan.ttl.as_millis(),
    )
}

/// Copies the binary to a path that every user can read. Nodes run under user ids that may not read the home of the
/// user who built it (`/root` is 0700), and a umask of 077 hides every file from them.
fn open_copy(binary: &Path, dir: &Path) -> anyhow::Result<PathBuf> {
    let copy = dir.join("hopcache");
    std::fs::copy(binary, &copy)
        .with_context(|| format!("copy {} to {}", binary.display(), copy.display()))?;
    all_may(&copy, 0o755)?;
    Ok(copy)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn the_binary_is_for_all_whatever_its_own_mode_and_folder_say() {
        let (closed, open) = (Dir::new().unwrap(), Dir::new().unwrap());
        let binary = closed.0.join("built");
        std::fs::write(&binary, "#!/bin/sh\n").unwrap();
        all_may(&binary, 0o700).unwrap();
        all_may(&closed.0, 0o700).unwrap();
        let copy = open_copy(&binary, &open.0).unwrap();
        assert_eq!(std::fs::metadata(copy).unwrap().permissions().mode() & 0o777, 0o755);
    }
}
