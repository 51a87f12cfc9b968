//! Cuts between plain processes. A rule marks packets that a node's group sends to an address, and a second rule drops
//! marked packets where they arrive. So the sender gets no answer and no error, as with a cut cable.
//!
//! An answer to a request from before the cut may still arrive: its packets go to 127.0.0.1, as those of every member.
//! Cuts need root and iptables with the match `owner`.

use std::net::SocketAddr;
use std::process::{Command, Stdio};

use anyhow::{Result, bail};

use super::layout::Layout;
use crate::services::install;

/// Any value that nothing else on the machine uses.
const MARK: &str = "0x48430000/0xffff0000";
/// Bound of rule removals. A cut adds a rule only if the rule does not exist, so there are fewer.
const JUMPS_MAX: usize = 8;

/// The command that starts a node in its own group, or the reason why this machine cannot. Packet rules know a node by
/// its group. In a container without privileges, root may have few group ids.
pub(super) fn apart(node: usize) -> Result<(&'static str, Vec<String>)> {
    if !install::is_root() {
        bail!("cuts need root: packets are dropped by iptables");
    }
    let group = Layout::group(node).to_string();
    let arguments = ["--regid", group.as_str(), "--clear-groups"].map(str::to_owned).to_vec();
    let mut tried = Command::new("setpriv");
    tried.args(&arguments).arg("true").stdin(Stdio::null()).stderr(Stdio::null());
    if !tried.status().is_ok_and(|status| status.success()) {
        bail!("no cuts here: this root cannot take group {group} (`setpriv --regid {group} true`)");
    }
    Ok(("setpriv", arguments))
}

/// Drops the packets of a node to `to`: to its whole host, or only to its port if other members use the same host.
pub(super) fn drop(layout: &Layout, node: usize, to: SocketAddr, is_port_only: bool) -> Result<()> {
    apart(node)?;
    install::missing(&[install::IPTABLES])?;
    let chain = layout.chain();
    lay(&chain)?;
    let (host, port) = (to.ip().to_string(), to.port().to_string());
    let group = Layout::group(node).to_string();
    let mut rule = vec!["-t", "mangle", "-A", &chain, "-d", &host];
    if is_port_only {
        rule.extend(["-p", "tcp", "--dport", &port]);
    }
    rule.extend(["-m", "owner", "--gid-owner", &group, "-j", "MARK", "--set-xmark", MARK]);
    must(&rule)
}

/// Adds the chains and jumps of every cut. Checks each part, because an interrupted cut or another program may have
/// left some of them.
fn lay(chain: &str) -> Result<()> {
    for table in ["mangle", "filter"] {
        if !iptables(&["-t", table, "-n", "-L", chain]) {
            must(&["-t", table, "-N", chain])?;
        }
    }
    for (table, rule) in [
        ("filter", [chain, "-m", "mark", "--mark", MARK, "-j", "DROP"].as_slice()),
        ("filter", &["INPUT", "-i", "lo", "-j", chain]),
        ("mangle", &["OUTPUT", "-o", "lo", "-j", chain]),
    ] {
        if !iptables(&[&["-t", table, "-C"], rule].concat()) {
            must(&[&["-t", table, "-I"], rule].concat())?;
        }
    }
    Ok(())
}

/// Removes every cut of this cluster, also incomplete ones. Does nothing without cuts.
pub(super) fn heal(layout: &Layout) -> Result<()> {
    let chain = layout.chain();
    let is_there = |table| iptables(&["-t", table, "-n", "-L", &chain]);
    let can_be = install::is_root() && install::on_path("iptables");
    if !can_be || !["mangle", "filter"].into_iter().any(is_there) {
        println!("nothing is cut");
        return Ok(());
    }
    for (table, from, interface) in [("mangle", "OUTPUT", "-o"), ("filter", "INPUT", "-i")] {
        // Each rule may be missing, and a jump may exist twice.
        let mut jumps = 0;
        while jumps < JUMPS_MAX && iptables(&["-t", table, "-D", from, interface, "lo", "-j", &chain]) {
            jumps += 1;
        }
        iptables(&["-t", table, "-F", &chain]);
        iptables(&["-t", table, "-X", &chain]);
        if is_there(table) {
            bail!("chain {chain} in iptables' table {table} could not be removed");
        }
    }
    println!("healed");
    Ok(())
}

/// How many packets each cut has dropped, as iptables counts them.
pub(super) fn list(layout: &Layout) -> String {
    let output = Command::new("iptables")
        .args(["-w", "-t", "mangle", "-nvxL", &layout.chain()])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    text.lines().skip(2).fold(String::new(), |list, line| format!("{list}cut: {}\n", line.trim()))
}

fn must(rule: &[&str]) -> Result<()> {
    if !iptables(rule) {
        bail!("iptables {} failed", rule.join(" "));
    }
    Ok(())
}

fn iptables(rule: &[&str]) -> bool {
    let mut command = Command::new("iptables");
    command.arg("-w").args(rule).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
