//! cargo-deny: licences, bans, sources and advisories of every dependency.
//!
//! Uses the one on the path, else builds one into `target/tools`. Advisories are checked where their database is on the
//! machine (`cargo deny fetch db`). It is never fetched here, because the gate must pass without the network.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::command::{answers, finish};

/// The checks that need nothing but the lock file and the sources cargo has.
const CHECKS: &[&str] = &["--all-features", "check", "bans", "licenses", "sources"];
/// With the database as it is.
const ADVISORIES: &[&str] = &["--offline", "--all-features", "check", "advisories"];

/// All checks that this machine can make.
pub(crate) fn run(root: &Path) -> Result<()> {
    let program = program(root)?;
    finish(Command::new(&program).current_dir(root).args(CHECKS), "cargo-deny")?;
    if has_database(&cargo_home()) {
        return finish(Command::new(&program).current_dir(root).args(ADVISORIES), "cargo-deny");
    }
    println!("advisories are not checked: no database here (`cargo deny fetch db` brings it)");
    Ok(())
}

fn cargo_home() -> PathBuf {
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cargo"));
    std::env::var_os("CARGO_HOME").map(PathBuf::from).or_else(home).unwrap_or_default()
}

/// cargo-deny names the folder of each database by its address.
fn has_database(cargo_home: &Path) -> bool {
    let databases = std::fs::read_dir(cargo_home.join("advisory-dbs"));
    let mut names = databases.into_iter().flatten().flatten().map(|entry| entry.file_name());
    names.any(|name| name.to_string_lossy().starts_with("advisory-db-"))
}

/// Where cargo-deny is; builds it when it is nowhere.
fn program(root: &Path) -> Result<PathBuf> {
    if answers(Path::new("cargo-deny")) {
        return Ok(PathBuf::from("cargo-deny"));
    }
    let tools = root.join("target/tools");
    let program = tools.join("bin/cargo-deny");
    if !answers(&program) {
        build(&tools)?;
    }
    Ok(program)
}

/// A debug build without debug information: it runs for a second and is built once per machine.
fn build(tools: &Path) -> Result<()> {
    println!("cargo-deny: not found, building it into target/tools (once)");
    let status = Command::new("cargo")
        .args(["install", "cargo-deny", "--locked", "--debug", "--root"])
        .arg(tools)
        .arg("--target-dir")
        .arg(tools.join("build"))
        .env("CARGO_PROFILE_DEV_DEBUG", "0")
        .stdin(Stdio::null())
        .status()
        .context("could not start cargo")?;
    if !status.success() {
        bail!("cargo-deny could not be built: install it by hand (`cargo install cargo-deny --locked`)");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_alone_is_no_database() {
        let home = std::env::temp_dir().join(format!("hopcache-deny-{}", std::process::id()));
        let folder = home.join("advisory-dbs");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("db.lock"), "").unwrap();
        assert!(!has_database(&home) && !has_database(&home.join("nowhere")));
        std::fs::create_dir(folder.join("advisory-db-3157b0e258782691")).unwrap();
        assert!(has_database(&home));
        std::fs::remove_dir_all(&home).unwrap();
    }
}
