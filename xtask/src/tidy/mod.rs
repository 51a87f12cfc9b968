//! `cargo xtask tidy`: rules of this repository that neither rustc nor clippy knows.
//!
//! Finds broken rules and prints each as `file:line: rule: what to do`. Changes no file.

mod forgotten_tests;
mod gate_tests;
mod links;
mod rooms;
mod source;
mod test_code;
mod text;

use std::fmt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::pictures;

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
        findings.extend(check_file(root, file, &content));
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
    println!("tidy: {} files, every rule holds", files.len());
    Ok(())
}

fn check_file(root: &Path, file: &str, content: &str) -> Vec<Finding> {
    let mut findings = text::registry_hosts(file, content);
    if !file.ends_with(".md") {
        findings.extend(text::seeded_bugs(file, content));
    }
    if file.ends_with(".rs") {
        findings.extend(source::check(file, content));
        findings.extend(rooms::check(file, content));
        findings.extend(test_code::check(file, content));
    }
    if let Some(name) = file.strip_suffix(".dot") {
        let drawing = std::fs::read_to_string(root.join(format!("{name}.svg"))).unwrap_or_default();
        if !pictures::is_current(content, &drawing) {
            let advice = format!("{name}.svg is of another text: run `cargo xtask pictures`");
            findings.push(Finding::new(file, 1, "drawing", advice));
        }
    }
    if file.ends_with(".md") {
        findings.extend(links::dead(file, content, root));
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
