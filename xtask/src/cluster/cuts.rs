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

/// Drops what a node sends to `to`: to its host, or to that port only where others listen at the same host.
pub(super) fn drop(place: &Place, node: usize, to: SocketAddr, is_port_only: bool) -> Result<()> {
    if !install::is_root() {
        bail!("cut needs root: packets are dropped by iptables");
    }
    install::missing(&[install::IPTABLES])?;
    let chain = place.chain();
    if !iptables(&["-t", "mangle", "-L", &chain]) {
        for rule in [
            ["-t", "mangle", "-N", &chain].as_slice(),
            &["-t", "mangle", "-I", "OUTPUT", "-o", "lo", "-j", &chain],
            &["-N", &chain],
            &["-A", &chain, "-m", "mark", "--mark", MARK, "-j", "DROP"],
            &["-I", "INPUT", "-i", "lo", "-j", &chain],
        ] {
            must(rule)?;
        }
    }
    let (host, port) = (to.ip().to_string(), to.port().to_string());
    let group = Place::group(node).to_string();
    let mut rule = vec!["-t", "mangle", "-A", &chain, "-d", &host];
    if is_port_only {
        rule.extend(["-p", "tcp", "--dport", &port]);
    }
    rule.extend(["-m", "owner", "--gid-owner", &group, "-j", "MARK", "--set-xmark", MARK]);
    must(&rule)
}

/// Undoes every cut of this cluster. Nothing where there is none.
pub(super) fn heal(place: &Place) -> Result<()> {
    let chain = place.chain();
    if !install::is_root() || !install::on_path("iptables") || !iptables(&["-t", "mangle", "-L", &chain]) {
        println!("nothing is cut");
        return Ok(());
    }
    for rule in [
        ["-t", "mangle", "-D", "OUTPUT", "-o", "lo", "-j", &chain].as_slice(),
        &["-t", "mangle", "-F", &chain],
        &["-t", "mangle", "-X", &chain],
        &["-D", "INPUT", "-i", "lo", "-j", &chain],
        &["-F", &chain],
        &["-X", &chain],
    ] {
        must(rule)?;
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
