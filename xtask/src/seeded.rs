//! `cargo xtask sim --seeded`: copies this tree, builds bugs into the copy, and proves that the simulator's checkers
//! see them.
//!
//! The bugs are patches in `crates/sim/seeded/bugs.patch`, so the source tree itself has no bugs. One build serves all bugs: a
//! bug's code asks at run time whether the bug is chosen. This module does not decide what a bug does.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::command::{SIMULATION, finish, target};

/// The folder of the patches and of the files that they need.
const PATCHES: &str = "crates/sim/seeded";

/// The file of all bugs: before each patch stands a line `== NAME`.
const ALL: &str = "bugs.patch";

/// The patch that declares the copied files. It is applied first.
const SWITCH: &str = "switch.patch";

/// The folder for the copy of the tree, and for its builds.
const FOLDER: &str = "target/seeded";

/// Files of [`PATCHES`], each with its path in the copy.
const COPIED: [(&str, &str); 4] = [
    ("switch.rs", "crates/packstream/src/seeded/mod.rs"),
    ("caught.rs", "crates/sim/tests/seeded/mod.rs"),
    ("flight_races.rs", "crates/engine/tests/flight_races/seeded.rs"),
    ("limit.rs", "crates/sim/tests/seeded/limit.rs"),
];

/// xtask writes this file from the patches' names and headers.
const BUGS: &str = "crates/packstream/src/seeded/bugs.rs";

/// Proves that the checkers catch each seeded bug.
pub(crate) fn prove(root: &Path) -> Result<()> {
    let (fresh, tree) = (root.join(FOLDER).join("fresh"), root.join(FOLDER).join("tree"));
    let patches = patches(root)?;
    remove(&fresh)?;
    copy_tracked(root, &fresh)?;
    let seeded = root.join(PATCHES);
    for (from, to) in COPIED {
        let from = seeded.join(from);
        write(&fresh.join(to), &read(&from)?)?;
    }
    write(&fresh.join(BUGS), bugs(&patches)?.as_bytes())?;
    apply(&fresh, &seeded.join(SWITCH))?;
    for patch in patches.values() {
        apply(&fresh, patch)?;
    }
    replace_changed(&fresh, &tree)?;
    forget_builds(root)?;
    let tested = test(root, &tree);
    forget_builds(root)?;
    tested
}

/// The checkout and its copy build into one folder, so that they share their dependencies. Of their own crates cargo keeps
/// one build, and may take that of the one for that of the other: it compares times of files, and the copy's are noted
/// relative to the target folder, in which the copy lies.
fn forget_builds(root: &Path) -> Result<()> {
    let folder = target(root).join(SIMULATION[1]).join(".fingerprint");
    // There is none before the first build.
    for entry in std::fs::read_dir(&folder).into_iter().flatten().filter_map(Result::ok) {
        if entry.file_name().to_string_lossy().starts_with("hopcache") {
            remove(&entry.path())?;
        }
    }
    Ok(())
}

/// The bugs' patches, sorted by name, each in a file of its own.
fn patches(root: &Path) -> Result<BTreeMap<String, PathBuf>> {
    let text = String::from_utf8(read(&root.join(PATCHES).join(ALL))?).context("bugs.patch is no text")?;
    let folder = root.join(FOLDER).join("patches");
    remove(&folder)?;
    let mut patches = BTreeMap::new();
    for (name, patch) in split(&text) {
        let path = folder.join(format!("{name}.patch"));
        write(&path, patch.as_bytes())?;
        ensure!(patches.insert(name.to_owned(), path).is_none(), "{ALL} has two bugs called {name}");
    }
    Ok(patches)
}

/// Each bug's name and its patch. No line of a patch begins as the line of a name does.
fn split(text: &str) -> Vec<(&str, &str)> {
    let starts: Vec<usize> = text
        .match_indices("== ")
        .map(|(at, _)| at)
        .filter(|at| *at == 0 || text[..*at].ends_with('\n'))
        .collect();
    let ends = starts.iter().skip(1).copied().chain([text.len()]);
    let parts = starts.iter().zip(ends).map(|(start, end)| &text[start + "== ".len()..end]);
    parts.filter_map(|part| part.split_once('\n')).collect()
}

/// The source of an enum of the bugs: each variant is a patch's name with the text of the patch's header.
fn bugs(patches: &BTreeMap<String, PathBuf>) -> Result<String> {
    let (mut variants, mut all, mut catchers) = (String::new(), String::new(), String::new());
    for (name, path) in patches {
        let text = String::from_utf8_lossy(&read(path)?).into_owned();
        let header = |what: &str| {
            let line = text
                .lines()
                .take_while(|line| !line.starts_with("diff "))
                .find_map(|line| line.strip_prefix(what));
            line.map(str::trim)
                .with_context(|| format!("{}: no line that begins with `{what}`", path.display()))
        };
        let (bug, caught_by) = (header("Bug:")?, header("Caught by:")?);
        let checkers: Vec<String> = caught_by.split(", ").map(|checker| format!("{checker:?}")).collect();
        variants.push_str(&format!("    /// {bug}\n    {name},\n"));
        all.push_str(&format!("        Self::{name},\n"));
        catchers.push_str(&format!("            Self::{name} => &[{}],\n", checkers.join(", ")));
    }
    Ok(format!(
        "//! The seeded bugs, written by `cargo xtask sim --seeded`.\n\n/// A seeded bug.\n\
         #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]\npub enum Bug {{\n{variants}}}\n\n\
         impl Bug {{\n    /// All of them.\n    pub const ALL: [Self; {}] = [\n{all}    ];\n\n    \
         /// The checkers that have to catch it, by name.\n    #[must_use]\n    \
         pub const fn caught_by(self) -> &'static [&'static str] {{\n        match self {{\n{catchers}        }}\n    }}\n}}\n",
        patches.len(),
    ))
}

/// Copies the files that git tracks or would add, in their present state: a bug is proved on the tree that will be
/// committed.
fn copy_tracked(root: &Path, to: &Path) -> Result<()> {
    let listed = Command::new("git")
        .current_dir(root)
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .output()
        .context("could not run git")?;
    ensure!(listed.status.success(), "git ls-files failed: {}", String::from_utf8_lossy(&listed.stderr));
    let listed = String::from_utf8_lossy(&listed.stdout);
    for file in listed.split_terminator('\0') {
        let from = root.join(file);
        // git also lists a file whose deletion is not yet committed.
        if from.is_file() {
            write(&to.join(file), &read(&from)?)?;
        }
    }
    Ok(())
}

fn apply(tree: &Path, patch: &Path) -> Result<()> {
    // The copy lies inside this repository. Without the ceiling, git looks for the patch's files at the repository's
    // root. They are outside of the copy, so git skips them without an error.
    let applied = Command::new("git")
        .current_dir(tree)
        .env_remove("GIT_DIR")
        .env("GIT_CEILING_DIRECTORIES", tree.parent().unwrap_or(tree))
        .args(["apply", "--recount"])
        .arg(patch)
        .stdin(Stdio::null())
        .output()
        .context("could not run git")?;
    if !applied.status.success() {
        bail!(
            "{} does not apply. Edit its lines in {PATCHES} to what the source has now; `target/seeded/fresh` is the tree with \
             the patches before it (CONTRIBUTING, \"Seeded bugs\").\n{}",
            patch.display(),
            String::from_utf8_lossy(&applied.stderr),
        );
    }
    Ok(())
}

/// Makes `tree` equal to `fresh`. An unchanged file keeps its time stamp, so cargo builds only the changed files.
fn replace_changed(fresh: &Path, tree: &Path) -> Result<()> {
    for old in files_below(tree)? {
        if !fresh.join(&old).is_file() {
            std::fs::remove_file(tree.join(&old))?;
        }
    }
    for new in files_below(fresh)? {
        let content = read(&fresh.join(&new))?;
        if std::fs::read(tree.join(&new)).ok().as_ref() != Some(&content) {
            write(&tree.join(&new), &content)?;
        }
    }
    remove(fresh)
}

fn files_below(folder: &Path) -> Result<Vec<PathBuf>> {
    let (mut files, mut folders) = (Vec::new(), vec![PathBuf::new()]);
    while let Some(inner) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(folder.join(&inner)) else { continue };
        for entry in entries {
            let entry = entry?;
            let path = inner.join(entry.file_name());
            if entry.file_type()?.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    Ok(files)
}

/// The build shares the dependencies of all other builds of the profile, so cargo does not build them again.
fn test(root: &Path, tree: &Path) -> Result<()> {
    let mut command = Command::new("cargo");
    command
        .current_dir(tree)
        .env("CARGO_BUILD_BUILD_DIR", target(root))
        .env("CARGO_TARGET_DIR", root.join(FOLDER))
        .args(["test", "--package", "hopcache-sim", "--test", "scenes"])
        .args(["--package", "hopcache-engine", "--test", "flight_races"])
        .args(SIMULATION);
    finish(command.args(["--", "--nocapture", "seeded::"]), "the simulator with seeded bugs")
}

fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

fn write(path: &Path, content: &[u8]) -> Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    }
    std::fs::write(path, content).with_context(|| format!("cannot write {}", path.display()))
}

fn remove(folder: &Path) -> Result<()> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", folder.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn each_bug_has_its_own_patch() {
        let text = "== One\nBug: a.\n\ndiff --git\n == x\n+y\n== Two\nBug: b.\n";
        assert_eq!(split(text), [("One", "Bug: a.\n\ndiff --git\n == x\n+y\n"), ("Two", "Bug: b.\n")]);
    }
}
