//! `cargo xtask sbom`: a bill of materials of the program `hopcache`. The bill lists each crate in the program with its
//! version and licence, and each crate of the registry with its checksum (CycloneDX, JSON).
//!
//! cargo-cyclonedx makes the bill from the lock file and the features that are built. It writes one file beside each
//! manifest of the workspace. This module moves the node's file to `target/sbom`, checks it, and removes the others.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::cargo_tool::CargoTool;
use crate::command::finish;

const CARGO_CYCLONEDX: CargoTool = CargoTool {
    name: "cargo-cyclonedx",
    subcommand: Some("cyclonedx"),
    version: "0.5.9",
    default_features: true,
};
/// Name of the files that cargo-cyclonedx writes beside manifests. No other file has this name.
const NAME: &str = "hopcache-sbom";
/// Nodes run on this platform. Crates of other platforms are not in the bill.
const TARGET: &str = "x86_64-unknown-linux-gnu";

pub(crate) fn run(root: &Path) -> Result<()> {
    let mut command = CARGO_CYCLONEDX.command(root)?;
    // Crates that only build scripts use are not in the program.
    command.current_dir(root).args(["--format", "json", "--no-build-deps", "--target", TARGET]);
    command.args(["--manifest-path", "crates/node/Cargo.toml", "--override-filename", NAME, "--quiet"]);
    let made = finish(&mut command, "cargo-cyclonedx");
    let found = members(root).map(|members| {
        let file = |member: &PathBuf| member.join(format!("{NAME}.json"));
        let text = std::fs::read_to_string(file(&root.join("crates/node")));
        for left in members.iter().map(file) {
            // Not every member has a bill; a missing file needs no removal.
            let _ = std::fs::remove_file(left);
        }
        text
    });
    made?;
    let text = found?.context("cargo-cyclonedx has written nothing for crates/node")?;
    let text = without_root(&text, root);
    let components = components(&text)?;
    let folder = root.join("target/sbom");
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let path = folder.join("hopcache.cdx.json");
    std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    println!("{}: {components} crates", path.display());
    Ok(())
}

/// The bill without the path of this work tree. cargo-cyclonedx writes it into the id of each crate of the workspace, where
/// it would tell readers about the builder's machine: `path+file:///home/me/hopcache/crates/core#hopcache-core@0.1.0`.
fn without_root(text: &str, root: &Path) -> String {
    text.replace(&format!("path+file://{}/", root.display()), "path+file:///")
}

/// Counts the crates in the bill. Fails if a crate has no version or no licence: nobody could check it then.
fn components(text: &str) -> Result<usize> {
    let bill: Value = serde_json::from_str(text).context("cargo-cyclonedx wrote no JSON")?;
    ensure!(bill["bomFormat"] == "CycloneDX", "the bill of materials is not CycloneDX");
    let components = bill["components"].as_array().context("the bill of materials lists no crates")?;
    for component in components {
        let name = &component["name"];
        ensure!(component["version"].is_string(), "{name} has no version");
        ensure!(component["licenses"].is_array(), "{name} has no licence");
    }
    ensure!(
        components.iter().any(|component| component["name"] == "rustls"),
        "rustls is missing in the bill of materials"
    );
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bill_does_not_show_the_builders_folder() {
        let id = r#""bom-ref":"path+file:///home/me/hopcache/crates/core#hopcache-core@0.1.0""#;
        let shown = without_root(id, Path::new("/home/me/hopcache"));
        assert_eq!(shown, r#""bom-ref":"path+file:///crates/core#hopcache-core@0.1.0""#);
    }

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
