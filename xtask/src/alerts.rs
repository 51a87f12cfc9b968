//! The alert rules under `cluster/prometheus`: checked and tested by `promtool`.
//!
//! Uses the one on the path, else takes it out of the distribution's package into `target/tools`: installing that package
//! would start a Prometheus. It never starts one.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

const RULES: &str = "cluster/prometheus";
const PACKAGE: &str = "prometheus";

/// Checks the rules and the example's configuration, and runs the rules' tests.
pub(crate) fn run(root: &Path) -> Result<()> {
    let promtool = program(root)?;
    for arguments in [
        ["check", "rules", "alerts.yml"],
        ["check", "config", "prometheus.yml"],
        ["test", "rules", "alerts_test.yml"],
    ] {
        let mut command = Command::new(&promtool);
        succeed(command.current_dir(root.join(RULES)).args(arguments))?;
    }
    Ok(())
}

fn program(root: &Path) -> Result<PathBuf> {
    if answers(Path::new("promtool")) {
        return Ok(PathBuf::from("promtool"));
    }
    let folder = root.join("target/tools/prometheus");
    let program = folder.join("usr/bin/promtool");
    if !answers(&program) {
        unpack(&folder).context(
            "promtool is missing. Debian and Ubuntu: `sudo apt-get install prometheus` (this starts a server too), \
             or put promtool on the path",
        )?;
    }
    if !answers(&program) {
        bail!("{} does not run", program.display());
    }
    Ok(program)
}

fn unpack(folder: &Path) -> Result<()> {
    println!("alerts: taking promtool out of the package {PACKAGE} (once)");
    let download = || succeed(Command::new("apt-get").current_dir(folder).args(["download", "-qq", PACKAGE]));
    std::fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    if download().is_err() {
        // A fresh image has no lists; only root can fetch them.
        succeed(Command::new("apt-get").args(["update", "-qq"]))?;
        download()?;
    }
    let files = std::fs::read_dir(folder).context("cannot list the download")?;
    let mut packages = files.filter_map(|file| Some(file.ok()?.path()));
    let package = packages
        .find(|path| path.extension().is_some_and(|extension| extension == "deb"))
        .context("apt-get downloaded nothing")?;
    succeed(Command::new("dpkg").arg("--extract").arg(&package).arg(folder))?;
    std::fs::remove_file(&package).with_context(|| format!("cannot remove {}", package.display()))
}

fn succeed(command: &mut Command) -> Result<()> {
    let name = command.get_program().to_owned();
    let status = command
        .stdin(Stdio::null())
        .status()
        .with_context(|| format!("could not start {}", name.display()))?;
    if !status.success() {
        bail!("{} ended with {status}", name.display());
    }
    Ok(())
}

fn answers(program: &Path) -> bool {
    Command::new(program)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}
