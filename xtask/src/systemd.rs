//! The systemd unit: read by systemd itself, and judged by its own measure of what a service may do, where systemd is
//! on the machine. Its text alone is tested everywhere.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::command::{answers, finish};

const UNIT: &str = "cluster/systemd/hopcache.service";
/// Largest exposure, in tenths, of `systemd-analyze security`: 20 is the end of "OK" (1.4 when it was written).
const EXPOSURE_MAX: &str = "20";
/// Where the unit expects the program, which `verify` looks for.
const PROGRAM: &str = "/usr/local/bin/hopcache";

pub(crate) fn run(root: &Path) -> Result<()> {
    let analyze = Path::new("systemd-analyze");
    if !answers(analyze) {
        println!("the systemd unit is not checked: systemd-analyze is not on this machine");
        return Ok(());
    }
    let text = std::fs::read_to_string(root.join(UNIT)).with_context(|| format!("cannot read {UNIT}"))?;
    let folder = root.join("target/systemd");
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let copy = folder.join("hopcache.service");
    std::fs::write(&copy, text.replace(PROGRAM, "/bin/true")).context("cannot write a copy of the unit")?;
    finish(Command::new(analyze).arg("verify").arg(&copy), "systemd-analyze verify")?;
    let mut judged = Command::new(analyze);
    judged.args(["security", "--offline=true", "--no-pager", "--threshold", EXPOSURE_MAX]).arg(&copy);
    let output = judged.output().context("could not start systemd-analyze")?;
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    println!("{}", told.lines().last().unwrap_or_default());
    anyhow::ensure!(output.status.success(), "the unit may do too much:\n{told}");
    Ok(())
}

#[cfg(test)]
mod tests {
    const UNIT: &str = include_str!("../../cluster/systemd/hopcache.service");

    #[test]
    fn the_unit_has_no_root_no_capability_and_writes_nothing() {
        for line in [
            "DynamicUser=yes",
            "CapabilityBoundingSet=",
            "AmbientCapabilities=",
            "NoNewPrivileges=yes",
            "ProtectSystem=strict",
        ] {
            assert!(UNIT.lines().any(|found| found == line), "{line}");
        }
        for wrong in ["User=root", "ReadWritePaths=", "StateDirectory="] {
            assert!(!UNIT.contains(wrong), "{wrong}");
        }
    }
}
