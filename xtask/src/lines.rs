//! `cargo xtask lines`: how large the repository is, by part, at a commit.
//!
//! Counts lines of code (no comments, no blanks) of the files that git has at that commit, and prints a table.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::command::{finish, target};

/// How a comment begins, by suffix of files that hold code. YAML, Markdown and data are none.
const LANGUAGES: &[(&str, &str)] = &[("//", "rs js java go css html"), ("#", "py sh"), ("--", "lua")];
/// Crates that ship.
const PRODUCT: &str = "packstream queryapi core learning tags cypher engine slots bolt gossip embedded net config ops store neo4j cluster state fronts admin node";
const PARTS: &[&str] = &["product", "tests", "sim", "lab", "tools", "other"];

/// Prints the table for `commit`.
pub(crate) fn run(root: &Path, commit: &str) -> Result<()> {
    let (tree, archive) = (target(root).join("lines"), target(root).join("lines.tar"));
    std::fs::create_dir_all(&tree)?;
    std::fs::remove_dir_all(&tree)?;
    std::fs::create_dir_all(&tree)?;
    let pack = ["archive", "--format=tar", commit, "--output"];
    finish(Command::new("git").current_dir(root).args(pack).arg(&archive), "git archive")?;
    finish(Command::new("tar").arg("-xf").arg(&archive).current_dir(&tree), "tar")?;
    let listed = ["ls-tree", "-r", "--name-only", "-z", commit];
    let names = Command::new("git").current_dir(root).args(listed).output().context("git ls-tree")?.stdout;
    let names = String::from_utf8(names)?;
    let files: Vec<&Path> = names.split_terminator('\0').map(Path::new).collect();
    let read = |file: &Path| std::fs::read_to_string(tree.join(file)).unwrap_or_default();
    let test_files: BTreeSet<PathBuf> = files
        .iter()
        .filter(|file| suffix(file) == "rs")
        .flat_map(|file| test_modules(file, &read(file)))
        .collect();
    let (mut lines, mut programs) = (BTreeMap::<&str, usize>::new(), 0);
    for file in files.iter().copied() {
        if file.ends_with("Cargo.toml") && !file.starts_with("fuzz") {
            programs += test_programs(file, &read(file), &files);
        }
        let knows = |(_, suffixes): &&(&str, &str)| suffixes.split(' ').any(|known| known == suffix(file));
        let Some((comment, _)) = LANGUAGES.iter().find(knows) else { continue };
        let (code, tests) = count(&read(file), comment);
        let is_test = file.ancestors().any(|above| test_files.contains(&above.with_extension("")));
        let part = if part(file) == "product" && is_test { "tests" } else { part(file) };
        *lines.entry(part).or_default() += code;
        *lines.entry(if part == "product" { "tests" } else { part }).or_default() += tests;
    }
    println!("| {commit} | lines of code |\n|---|---|");
    PARTS.iter().for_each(|part| println!("| {part} | {} |", lines.get(part).unwrap_or(&0)));
    println!("| all | {} |\n| files in git | {} |", lines.values().sum::<usize>(), files.len());
    let packages = read(Path::new("Cargo.lock")).matches("[[package]]").count();
    println!("| test programs | {programs} |\n| packages in Cargo.lock | {packages} |");
    Ok(())
}

fn suffix(file: &Path) -> &str {
    file.extension().and_then(|suffix| suffix.to_str()).unwrap_or_default()
}

/// The part that a file belongs to if it is no module of tests.
fn part(file: &Path) -> &'static str {
    let names: Vec<&str> = file.iter().filter_map(|name| name.to_str()).collect();
    match names.as_slice() {
        [.., "vendor", _] | ["cluster" | "examples" | "docs", ..] => "other",
        ["crates", "sim", ..] => "sim",
        ["crates", "bench" | "trials", ..] => "lab",
        ["xtask" | "fuzz", ..] | ["crates", "testbed" | "fuzzing", ..] => "tools",
        ["tests", ..] | ["crates", _, "tests" | "examples" | "benches", ..] => "tests",
        ["crates", name, ..] if PRODUCT.split(' ').any(|ships| ships == *name) => "product",
        _ => "other",
    }
}

/// The modules, as paths without suffix, that `file` declares behind `#[cfg(test)]`.
fn test_modules(file: &Path, content: &str) -> Vec<PathBuf> {
    let is_root = ["mod.rs", "lib.rs", "main.rs"].iter().any(|name| file.ends_with(name));
    let folder = if is_root { file.with_file_name("") } else { file.with_extension("") };
    let lines: Vec<&str> = content.lines().map(str::trim).collect();
    let declared = lines.windows(2).filter(|pair| pair[0] == "#[cfg(test)]");
    let named = declared.filter_map(|pair| pair[1].split_once("mod ")?.1.strip_suffix(';'));
    named.map(|name| folder.join(name)).collect()
}

/// Lines of code outside and inside modules of tests within the file.
fn count(content: &str, comment: &str) -> (usize, usize) {
    let (mut code, mut tests, mut in_comment, mut is_next, mut end) = (0, 0, false, false, None::<String>);
    for line in content.lines() {
        let text = line.trim();
        in_comment |= comment == "//" && text.starts_with("/*");
        if text.is_empty() || in_comment || text.starts_with(comment) {
            in_comment &= !text.contains("*/");
            continue;
        }
        if is_next && text.contains("mod ") && text.ends_with('{') {
            end = Some(format!("{}}}", &line[..line.len() - line.trim_start().len()]));
        }
        *(if end.is_some() { &mut tests } else { &mut code }) += 1;
        is_next = text == "#[cfg(test)]" || (is_next && text.starts_with('#'));
        end = end.filter(|end| end != line);
    }
    (code, tests)
}

/// Programs that `cargo test` links for a package: its test targets, its library and its binaries.
fn test_programs(manifest: &Path, content: &str, files: &[&Path]) -> usize {
    let tests = manifest.with_file_name("tests");
    let found = files.iter().filter(|file| file.parent() == Some(&tests) && suffix(file) == "rs");
    let automatic = if content.contains("autotests = false") { 0 } else { found.count() };
    let roots = ["src/lib.rs", "src/main.rs"].map(|source| manifest.with_file_name(source));
    let roots = roots.iter().filter(|source| files.contains(&source.as_path())).count();
    content.matches("[[test]]").count() + automatic + roots
        - content.matches("\ntest = false").count().min(roots)
}
