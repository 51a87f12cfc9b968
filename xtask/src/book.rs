//! The documentation: `docs` as a book (mdBook), and the pages of `docs/reference`, which tests of the node render from the
//! code. `tidy` checks the links in it.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::command::finish;
use crate::tools::{Package, Tool};

/// Without its features: those serve the book and watch its files.
const MDBOOK: Tool =
    Tool { program: "mdbook", package: Package::Cargo("0.4.52", &["--no-default-features"]) };

/// Builds the book into `target/book`.
pub(crate) fn run(root: &Path) -> Result<()> {
    finish(
        MDBOOK
            .command(root)?
            .current_dir(root)
            .args(["build", "docs", "--dest-dir"])
            .arg(root.join("target/book")),
        "mdbook",
    )
}

/// Writes the pages of `docs/reference`. `crates/node/tests/reference.rs` renders them, and fails when they are not current.
pub(crate) fn write_reference(root: &Path) -> Result<()> {
    let mut cargo = Command::new("cargo");
    cargo.current_dir(root).args(["test", "-p", "hopcache", "--test", "all", "reference::"]);
    finish(cargo.env("HOPCACHE_WRITE_REFERENCE", "1"), "cargo")
}
