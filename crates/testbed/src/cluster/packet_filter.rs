//! Cuts between processes, as packet filter rules on loopback. This module does not decide which cuts happen.
//!
//! All nodes run on one machine, and every connection has the source address 127.0.0.1. So the filter knows a node by
//! its user id. The match `owner` finds packets that the node sends. Its answers on a connection that another node
//! opened are found by the mark that the connection got with its SYN. A cut from a to b drops every packet that a sends
//! to b, on connections of either; the other direction passes.
//!
//! The rules are in this process's own chains and match user ids that no other process has. So a rule that is left
//! behind does no harm.

use std::net::SocketAddr;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, bail};

/// First of the user ids. No user has them.
const UIDS_FROM: u32 = 210_000;
/// Nodes of one run.
pub const NODES_MAX: usize = 8;

/// The filter of one run.
pub struct PacketFilter {
    /// Marks connections while the filter exists.
    _marks: Chain,
    cuts: AtomicU32,
}

/// A node's identity for the filter.
#[derive(Debug, Clone, Copy)]
pub struct Party {
    /// User id of its process.
    pub uid: u32,
    /// Its peer listener, TCP and UDP.
    pub peer: SocketAddr,
}

/// User id of a node of this process.
pub fn uid_of(node: usize) -> u32 {
    let node = u32::try_from(node).unwrap_or(0);
    UIDS_FROM + std::process::id() % 100_000 * 8 + node
}

/// A chain that is jumped to from a built-in one, gone when dropped.
struct Chain {
    name: String,
    from: &'static str,
}

/// A cut that is in force until it is healed or dropped.
pub struct Cut {
    chain: Chain,
}

/// The packets that met a cut.
#[derive(Debug, Clone, Copy, Default)]
pub struct Dropped {
    /// All of it.
    pub packets: u64,
    /// Gossip's of that.
    pub datagrams: u64,
}

impl PacketFilter {
    /// The filter, or the reason why this machine has none.
    pub fn open(parties: &[Party]) -> anyhow::Result<Self> {
        for party in parties {
            // A container without privileges may be root and still have few ids.
            let tried = Command::new("true").uid(party.uid).status();
            tried.with_context(|| format!("user id {} cannot be taken", party.uid))?;
        }
        let marks = Chain::open("M", "OUTPUT")?;
        for Party { uid, .. } in parties {
            marks.add(&format!("-p tcp --syn -m owner --uid-owner {uid} -j CONNMARK --set-mark {uid}"))?;
        }
        Ok(Self { _marks: marks, cuts: AtomicU32::new(0) })
    }

    /// Everything that one node sends to another is dropped, gossip's datagrams too.
    pub fn cut_peers(&self, from: Party, to: Party) -> anyhow::Result<Cut> {
        let (chain, uid, target) = (self.chain()?, from.uid, to.peer);
        for protocol in ["tcp", "udp"] {
            chain.add(&format!(
                "-p {protocol} -m owner --uid-owner {uid} -d {} --dport {} -j DROP",
                target.ip(),
                target.port()
            ))?;
        }
        chain.add(&format!(
            "-p tcp -s {} --sport {} -m connmark --mark {} -j DROP",
            from.peer.ip(),
            from.peer.port(),
            to.uid
        ))?;
        Ok(Cut { chain })
    }

    /// Drops all packets from a node to a server, and so the server's answers too.
    pub fn cut_server(&self, from: Party, server: SocketAddr) -> anyhow::Result<Cut> {
        let (chain, uid, ip, port) = (self.chain()?, from.uid, server.ip(), server.port());
        chain.add(&format!("-p tcp -m owner --uid-owner {uid} -d {ip} --dport {port} -j DROP"))?;
        chain.add(&format!("-p tcp -s {ip} --sport {port} -m connmark --mark {uid} -j DROP"))?;
        Ok(Cut { chain })
    }

    fn chain(&self) -> anyhow::Result<Chain> {
        Chain::open(&self.cuts.fetch_add(1, Ordering::Relaxed).to_string(), "OUTPUT")
    }
}

impl Cut {
    /// Ends the cut and returns what it dropped.
    pub fn heal(self) -> anyhow::Result<Dropped> {
        let listed = iptables(&["-nvxL", &self.chain.name])?;
        let mut dropped = Dropped::default();
        for line in listed.lines().filter(|line| line.contains("DROP")) {
            let count = line.split_whitespace().next().and_then(|word| word.parse::<u64>().ok()).unwrap_or(0);
            dropped.packets += count;
            // The protocol by name or, where names are not looked up, by number.
            if matches!(line.split_whitespace().nth(3), Some("udp" | "17")) {
                dropped.datagrams += count;
            }
        }
        Ok(dropped)
    }
}

impl Chain {
    fn open(name: &str, from: &'static str) -> anyhow::Result<Self> {
        let name = format!("HCX{}_{name}", std::process::id());
        iptables(&["-N", &name])?;
        let chain = Self { name, from };
        iptables(&["-I", from, "-j", &chain.name])?;
        Ok(chain)
    }

    fn add(&self, rule: &str) -> anyhow::Result<()> {
        let words: Vec<&str> = rule.split(' ').collect();
        iptables(&[&["-A", &self.name], &words[..]].concat()).map(drop)
    }
}

impl Drop for Chain {
    fn drop(&mut self) {
        for args in [&["-D", self.from, "-j", &self.name][..], &["-F", &self.name], &["-X", &self.name]] {
            let _ = iptables(args);
        }
    }
}

fn iptables(args: &[&str]) -> anyhow::Result<String> {
    let output = Command::new("iptables").arg("-w").args(args).output().context("start iptables")?;
    if !output.status.success() {
        bail!("iptables {}: {}", args.join(" "), String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
