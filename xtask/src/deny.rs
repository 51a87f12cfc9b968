//! cargo-deny: checks licences, bans, sources and advisories of every dependency.
//!
//! cargo-deny checks advisories only if their database is on the machine (`cargo deny fetch db` brings it). This module
//! never fetches the database, because the gate must pass without the network.

use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::cargo_tool::CargoTool;
use crate::command::finish;

const CARGO_DENY: CargoTool =
    CargoTool { name: "cargo-deny", subcommand: Some("deny"), version: "0.20.2", default_features: true };

/// These checks need only the lock file and the sources that cargo has.
const CHECKS: &[&str] = &["--all-features", "check", "bans", "licenses", "sources"];
/// Uses the database as it is on the machine.
const ADVISORIES: &[&str] = &["--offline", "--all-features", "check", "advisories"];

/// Runs all checks that are possible on this machine.
pub(crate) fn run(root: &Path) -> Result<()> {
    finish(CARGO_DENY.command(root)?.current_dir(root).args(CHECKS), "cargo-deny")?;
    if has_database(&cargo_home()) {
        return finish(CARGO_DENY.command(root)?.current_dir(root).args(ADVISORIES), "cargo-deny");
    }
    println!(
        "advisories are not checked: their database is not on this machine (`cargo deny fetch db` brings it)"
    );
    Ok(())
}

fn cargo_home() -> PathBuf {
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cargo"));
    std::env::var_os("CARGO_HOME").map(PathBuf::from).or_else(home).unwrap_or_default()
}

/// cargo-deny names a database's folder after the database's address.
fn has_database(cargo_home: &Path) -> bool {
    let databases = std::fs::read_dir(cargo_home.join("advisory-dbs"));
    let mut names = databases.into_iter().flatten().flatten().map(|entry| entry.file_name());
    names.any(|name| name.to_string_lossy().starts_with("advisory-db-"))
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
