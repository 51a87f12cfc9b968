//! `cargo xtask sbom`: a bill of materials of the program `hopcache`. The bill lists each crate in the program with its
//! version and licence, and each crate of the registry with its checksum (CycloneDX, JSON).
//!
//! cargo-cyclonedx makes the bill from the lock file and the features that are built. It writes one file beside each
//! manifest of the workspace. This module moves the node's file to `target/sbom`, and removes the others. cargo-deny checks licences.

use std::path::Path;

use anyhow::{Context, Result};

use crate::command::finish;
use crate::tools::{Package, Tool};

const CARGO_CYCLONEDX: Tool = Tool { program: "cargo-cyclonedx", package: Package::Cargo("0.5.9", &[]) };
/// Name of the files that cargo-cyclonedx writes beside manifests. No other file has this name.
const NAME: &str = "hopcache-sbom";
/// Nodes run on this platform. Crates of other platforms are not in the bill.
const TARGET: &str = "x86_64-unknown-linux-gnu";

pub(crate) fn run(root: &Path) -> Result<()> {
    let mut command = CARGO_CYCLONEDX.command(root)?;
    // Crates that only build scripts use are not in the program.
    command.current_dir(root).args(["cyclonedx", "--format", "json", "--no-build-deps", "--target", TARGET]);
    command.args(["--manifest-path", "crates/node/Cargo.toml", "--override-filename", NAME, "--quiet"]);
    let made = finish(&mut command, "cargo-cyclonedx");
    let text = std::fs::read_to_string(root.join("crates/node").join(format!("{NAME}.json")));
    for member in std::fs::read_dir(root.join("crates")).context("cannot list the crates")? {
        // Not every member has a bill; a missing file needs no removal.
        let _ = std::fs::remove_file(member?.path().join(format!("{NAME}.json")));
    }
    made?;
    let text = without_root(&text.context("cargo-cyclonedx has written nothing for crates/node")?, root);
    let folder = root.join("target/sbom");
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let path = folder.join("hopcache.cdx.json");
    std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    println!("{}", path.display());
    Ok(())
}

/// The bill without the path of this work tree. cargo-cyclonedx writes it into the id of each crate of the workspace, where
/// it would tell readers about the builder's machine: `path+file:///home/me/hopcache/crates/core#hopcache-core@0.1.0`.
fn without_root(text: &str, root: &Path) -> String {
    text.replace(&format!("path+file://{}/", root.display()), "path+file:///")
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
}
