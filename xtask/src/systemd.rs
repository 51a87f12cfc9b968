//! The systemd unit. Where systemd is installed, `systemd-analyze` verifies the unit and rates its exposure. The test of
//! `dist::deb` reads its text on every machine.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::command::{answers, finish};

const UNIT: &str = "cluster/systemd/hopcache.service";
/// Largest exposure, in tenths, that `systemd-analyze security` may report: 20 is the end of "OK". The unit had 1.4 at
/// first.
const EXPOSURE_MAX: &str = "20";
/// The unit's path of the program, which `verify` looks for.
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
    let report = String::from_utf8_lossy(&output.stdout).into_owned();
    println!("{}", report.lines().last().unwrap_or_default());
    anyhow::ensure!(
        output.status.success(),
        "the unit is exposed too much: restrict it as systemd-analyze advises:\n{report}"
    );
    Ok(())
}
