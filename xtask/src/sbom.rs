//! A bill of materials of the program `hopcache`: each crate in it, with version, licence and checksum (CycloneDX,
//! JSON).
//!
//! cargo-cyclonedx makes it, of the lock file and the features that are built. It is on the path, or is built once into
//! `target/tools`. It writes beside each manifest, so this file moves the one that is wanted and removes the others.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::command::{answers, finish};

const VERSION: &str = "0.5.9";
/// Name of the files beside manifests, which nothing else has.
const NAME: &str = "hopcache-sbom";
/// What nodes run on.
const TARGET: &str = "x86_64-unknown-linux-gnu";

pub(crate) fn run(root: &Path) -> Result<()> {
    let program = program(root)?;
    let mut command = Command::new(program);
    command.current_dir(root).args(["cyclonedx", "--format", "json", "--describe", "crate"]);
    command.args(["--manifest-path", "crates/node/Cargo.toml", "--target", TARGET]);
    command.args(["--override-filename", NAME, "--quiet"]);
    let made = finish(&mut command, "cargo-cyclonedx");
    let found = members(root).map(|members| {
        let file = |member: &PathBuf| member.join(format!("{NAME}.json"));
        let text = std::fs::read_to_string(file(&root.join("crates/node")));
        for left in members.iter().map(file) {
            // A member without one has none to remove.
            let _ = std::fs::remove_file(left);
        }
        text
    });
    made?;
    let text = found?.context("cargo-cyclonedx has written nothing for crates/node")?;
    let components = components(&text)?;
    let folder = root.join("target/sbom");
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let path = folder.join("hopcache.cdx.json");
    std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    println!("{}: {components} crates", path.display());
    Ok(())
}

/// How many crates it names. One without a version or a licence is of no use to who checks them.
fn components(text: &str) -> Result<usize> {
    let bill: Value = serde_json::from_str(text).context("cargo-cyclonedx wrote no JSON")?;
    ensure!(bill["bomFormat"] == "CycloneDX", "it is no CycloneDX");
    let components = bill["components"].as_array().context("it names no crate")?;
    for component in components {
        let name = &component["name"];
        ensure!(component["version"].is_string(), "{name} has no version");
        ensure!(component["licenses"].is_array(), "{name} has no licence");
    }
    ensure!(components.iter().any(|component| component["name"] == "rustls"), "rustls is missing in it");
    Ok(components.len())
}

/// The folders of the workspace's packages.
fn members(root: &Path) -> Result<Vec<PathBuf>> {
    let mut command = Command::new("cargo");
    command.current_dir(root).args(["metadata", "--no-deps", "--format-version", "1"]);
    let output = command.output().context("could not run cargo metadata")?;
    let metadata: Value = serde_json::from_slice(&output.stdout).context("cargo metadata is not JSON")?;
    let packages = metadata["packages"].as_array().context("cargo metadata has no packages")?;
    let manifests = packages.iter().filter_map(|package| package["manifest_path"].as_str());
    Ok(manifests.filter_map(|manifest| Some(Path::new(manifest).parent()?.to_owned())).collect())
}

fn program(root: &Path) -> Result<PathBuf> {
    if answers(Path::new("cargo-cyclonedx")) {
        return Ok(PathBuf::from("cargo-cyclonedx"));
    }
    let tools = root.join("target/tools");
    let program = tools.join("bin/cargo-cyclonedx");
    if answers(&program) {
        return Ok(program);
    }
    println!("cargo-cyclonedx: not found, building it into target/tools (once)");
    let status = Command::new("cargo")
        .args(["install", "cargo-cyclonedx", "--version", VERSION, "--locked", "--debug", "--root"])
        .arg(&tools)
        .arg("--target-dir")
        .arg(tools.join("build"))
        .env("CARGO_PROFILE_DEV_DEBUG", "0")
        .stdin(Stdio::null())
        .status()
        .context("could not start cargo")?;
    if !status.success() {
        bail!("cargo-cyclonedx could not be built: `cargo install cargo-cyclonedx --locked` says why");
    }
    Ok(program)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bill_names_versions_and_licences() {
        let bill = |component: &str| {
            format!(r#"{{"bomFormat":"CycloneDX","components":[{{"name":"rustls",{component}}}]}}"#)
        };
        let licences = r#""licenses":[{"expression":"MIT"}]"#;
        assert_eq!(components(&bill(&format!(r#""version":"0.23.46",{licences}"#))).unwrap(), 1);
        assert!(components(&bill(licences)).unwrap_err().to_string().contains("no version"));
        assert!(components(&bill(r#""version":"1""#)).unwrap_err().to_string().contains("no licence"));
        assert!(components("{}").is_err() && components("no JSON").is_err());
    }
}
