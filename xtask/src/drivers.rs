//! `cargo xtask drivers`: installs Neo4j's drivers, runs every version of them, and runs frameworks on top of them.
//!
//! `tests/drivers` compares what drivers see. This module decides which versions run and when they are installed, and
//! compares what a framework's program prints: it runs `tests/frameworks/NAME/run.sh` before Neo4j and before a cluster.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::Subcommand;

use crate::cluster::Cluster;
use crate::command::{finish, target};
use crate::services::{self, install};

/// The user that frameworks log on as.
const USER: &str = "neo4j";

/// The examples that the gate runs. `tests/drivers/examples.rs` installs the others when it runs them.
const EXAMPLES: [&str; 3] = ["fastapi", "graphrag", "node"];

#[derive(Subcommand)]
pub(crate) enum Action {
    /// Install the toolchains, the newest driver of each language, and what the examples need. The gate's step.
    Install,
    /// Run every version of every driver against Neo4j and against a cluster before it, and every example.
    Versions {
        /// Passed to the test program.
        #[arg(last = true)]
        args: Vec<String>,
    },
    /// Run frameworks against Neo4j and against three nodes before it, and compare.
    Frameworks {
        /// Folders of tests/frameworks; without a name, all.
        which: Vec<String>,
        /// Turn the cache off: what a framework sees then does not depend on what has been cached.
        #[arg(long)]
        uncached: bool,
    },
}

pub(crate) fn run(root: &Path, action: &Action) -> Result<()> {
    install::missing(&install::LANGUAGES)?;
    match action {
        Action::Install => install_all(root),
        Action::Versions { args } => versions(root, args),
        Action::Frameworks { which, uncached } => frameworks(root, which, *uncached),
    }
}

/// The first version of each language in `tests/drivers/versions`.
fn newest(root: &Path) -> Result<Vec<(String, String)>> {
    let path = root.join("tests/drivers/versions");
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut found: Vec<(String, String)> = Vec::new();
    for (language, version) in text.lines().filter_map(|line| line.split_once(' ')) {
        if language != "#" && !found.iter().any(|(known, _)| known == language) {
            found.push((language.to_owned(), version.to_owned()));
        }
    }
    Ok(found)
}

/// What the gate's tests need.
fn install_all(root: &Path) -> Result<()> {
    newest(root)?.iter().try_for_each(|(language, version)| install_driver(root, language, version))?;
    EXAMPLES.iter().try_for_each(|name| install_example(root, name))
}

/// Installs an example where the tests look for it.
fn install_example(root: &Path, name: &str) -> Result<()> {
    let start = Instant::now();
    let mut install = Command::new(root.join("examples").join(name).join("run.sh"));
    install.arg("install").env("EXAMPLES_HOME", target(root).join("tmp/examples"));
    finish(&mut install, &format!("examples/{name}/run.sh install"))?;
    println!("example {name}: {:.1} s", start.elapsed().as_secs_f64());
    Ok(())
}

/// Installs a driver where the tests look for it.
fn install_driver(root: &Path, language: &str, version: &str) -> Result<()> {
    let start = Instant::now();
    let folder = target(root).join("tmp/drivers").join(format!("{language}-{version}"));
    let mut install = Command::new(root.join("tests/drivers/install.sh"));
    finish(install.args([language, version]).arg(folder), &format!("install.sh {language} {version}"))?;
    println!("{language} {version}: {:.1} s", start.elapsed().as_secs_f64());
    Ok(())
}

fn versions(root: &Path, args: &[String]) -> Result<()> {
    let ran = services::any_running(root);
    let environment = services::up(root)?;
    let mut test = Command::new("cargo");
    test.current_dir(root).args(["test", "--package", "hopcache", "--test", "e2e", "--"]);
    test.args(["drivers::answers::", "drivers::examples::"]);
    test.args(args).envs(environment.variables()).env("HOPCACHE_TEST_DRIVERS", "all");
    let tested = finish(&mut test, "tests/drivers");
    if ran { tested } else { services::down(root).and(tested) }
}

fn frameworks(root: &Path, which: &[String], is_uncached: bool) -> Result<()> {
    let frameworks = chosen(root, which)?;
    let more = if is_uncached { "[entry]\nttl = \"0s\"\n" } else { "" };
    let cluster = Cluster::up(root, more)?;
    let compared = compare_all(root, &cluster, &frameworks);
    cluster.down().and(compared)
}

/// The folders of `tests/frameworks` that were named, or all of them.
fn chosen(root: &Path, which: &[String]) -> Result<Vec<PathBuf>> {
    let all = root.join("tests/frameworks");
    let mut found: Vec<PathBuf> = std::fs::read_dir(&all)
        .with_context(|| format!("cannot read {}", all.display()))?
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.join("run.sh").exists())
        .collect();
    found.sort();
    let name = |path: &PathBuf| path.file_name().map(|name| name.to_string_lossy().into_owned());
    let names: Vec<String> = found.iter().filter_map(name).collect();
    if let Some(unknown) = which.iter().find(|asked| !names.contains(asked)) {
        bail!("no framework is called {unknown:?}: {}", names.join(", "));
    }
    found.retain(|path| which.is_empty() || name(path).is_some_and(|name| which.contains(&name)));
    Ok(found)
}

fn compare_all(root: &Path, cluster: &Cluster, frameworks: &[PathBuf]) -> Result<()> {
    let hopcache = cluster.bolt(0).to_string();
    let mut failed = Vec::new();
    for folder in frameworks {
        let name = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        println!("\n== {name}");
        let home = target(root).join("tmp/frameworks").join(&name);
        let program = Program { folder, home: &home, password: &cluster.password };
        match program.compare(&cluster.neo4j, &hopcache) {
            Ok(0) => {}
            Ok(lost) => failed.push(format!("{name} ({lost})")),
            Err(error) => {
                println!("{error:#}");
                failed.push(name);
            }
        }
    }
    if !failed.is_empty() {
        bail!("seen at Neo4j and not through Hopcache: {}", failed.join(", "));
    }
    Ok(())
}

/// The program of one framework.
struct Program<'a> {
    folder: &'a Path,
    /// Where it is installed.
    home: &'a Path,
    password: &'a str,
}

impl Program<'_> {
    /// Runs it before Neo4j and, over both schemes, before Hopcache. Returns how many lines only Neo4j showed, but for the
    /// file `exceptions`, which has a line of the program and its reason in turn.
    fn compare(&self, neo4j: &str, hopcache: &str) -> Result<usize> {
        std::fs::create_dir_all(self.home)
            .with_context(|| format!("cannot create {}", self.home.display()))?;
        finish(Command::new(self.folder.join("install.sh")).arg(self.home), "install.sh")?;
        let exceptions = std::fs::read_to_string(self.folder.join("exceptions")).unwrap_or_default();
        let expected = self.lines(&format!("bolt://{neo4j}"))?;
        let mut lost = 0;
        for scheme in ["bolt", "neo4j"] {
            let seen = self.lines(&format!("{scheme}://{hopcache}"))?;
            let missing = expected.difference(&seen);
            let (excepted, missing): (Vec<_>, Vec<_>) =
                missing.partition(|line| exceptions.lines().any(|exception| exception == line.as_str()));
            let same = expected.len() - excepted.len() - missing.len();
            println!(
                "{scheme}: {} at Neo4j, {same} of them here, {} exceptions",
                expected.len(),
                excepted.len()
            );
            missing.iter().for_each(|line| println!("  missing: {line}"));
            if !missing.is_empty() {
                seen.difference(&expected).for_each(|line| println!("  instead: {line}"));
            }
            lost += missing.len();
        }
        Ok(lost)
    }

    /// The lines that it prints: what it saw, or the tests that passed.
    fn lines(&self, url: &str) -> Result<BTreeSet<String>> {
        let start = Instant::now();
        let mut run = Command::new(self.folder.join("run.sh"));
        run.arg(self.home).args([url, USER, self.password]).stdin(Stdio::null()).stderr(Stdio::inherit());
        let output =
            run.output().with_context(|| format!("could not start {}/run.sh", self.folder.display()))?;
        if !output.status.success() {
            println!("{}", String::from_utf8_lossy(&output.stdout));
            bail!("run.sh at {url} ended with {}", output.status);
        }
        let lines: BTreeSet<String> =
            String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect();
        if lines.is_empty() {
            bail!("run.sh at {url} printed nothing");
        }
        println!("{url}: {} lines, {:.1} s", lines.len(), start.elapsed().as_secs_f64());
        Ok(lines)
    }
}
