//! Cuts between plain processes: packets that a node's group sends to an address are marked, and what is marked is
//! dropped where it arrives, so that the sender sees silence, as from a cut cable, and not an error.
//!
//! An answer to what was asked before a cut may still arrive: its packets go to 127.0.0.1, like those of every other
//! member. Needs root and iptables with `owner`.

use std::net::SocketAddr;
use std::process::{Command, Stdio};

use anyhow::{Result, bail};

use super::place::Place;
use crate::services::install;

/// Any value that nothing else on the machine uses.
const MARK: &str = "0x48430000/0xffff0000";
/// More than can be there: each cut adds one only where there is none.
const JUMPS_MAX: usize = 8;

/// What starts a node in a group of its own, by which its packets are known, or why nothing can. A container without
/// privileges may be root and still have few ids.
pub(super) fn apart(node: usize) -> Result<(&'static str, Vec<String>)> {
    if !install::is_root() {
        bail!("cuts need root: packets are dropped by iptables");
    }
    let group = Place::group(node).to_string();
    let arguments = ["--regid", group.as_str(), "--clear-groups"].map(str::to_owned).to_vec();
    let mut tried = Command::new("setpriv");
    tried.args(&arguments).arg("true").stdin(Stdio::null()).stderr(Stdio::null());
    if !tried.status().is_ok_and(|status| status.success()) {
        bail!("no cuts here: this root cannot take group {group} (`setpriv --regid {group} true`)");
    }
    Ok(("setpriv", arguments))
}

/// Drops what a node sends to `to`: to its host, or to that port only where others listen at the same host.
pub(super) fn drop(place: &Place, node: usize, to: SocketAddr, is_port_only: bool) -> Result<()> {
    apart(node)?;
    install::missing(&[install::IPTABLES])?;
    let chain = place.chain();
    lay(&chain)?;
    let (host, port) = (to.ip().to_string(), to.port().to_string());
    let group = Place::group(node).to_string();
    let mut rule = vec!["-t", "mangle", "-A", &chain, "-d", &host];
    if is_port_only {
        rule.extend(["-p", "tcp", "--dport", &port]);
    }
    rule.extend(["-m", "owner", "--gid-owner", &group, "-j", "MARK", "--set-xmark", MARK]);
    must(&rule)
}

/// What every cut needs. Each part is looked for by itself: an interrupted cut, or another program, may have left some.
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

/// Undoes every cut of this cluster, whole or half. Nothing where there is none.
pub(super) fn heal(place: &Place) -> Result<()> {
    let chain = place.chain();
    let is_there = |table| iptables(&["-t", table, "-n", "-L", &chain]);
    let can_be = install::is_root() && install::on_path("iptables");
    if !can_be || !["mangle", "filter"].into_iter().any(is_there) {
        println!("nothing is cut");
        return Ok(());
    }
    for (table, from, interface) in [("mangle", "OUTPUT", "-o"), ("filter", "INPUT", "-i")] {
        // Each may be missing; a jump may be there twice.
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
pub(super) fn told(place: &Place) -> String {
    let output = Command::new("iptables")
        .args(["-w", "-t", "mangle", "-nvxL", &place.chain()])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    text.lines().skip(2).fold(String::new(), |told, line| format!("{told}cut: {}\n", line.trim()))
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
