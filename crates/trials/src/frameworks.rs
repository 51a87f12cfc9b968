//! Frameworks on top of Neo4j's drivers: runs each program of `tests/frameworks` before Neo4j and, over both schemes, before three nodes,
//! and compares what it prints: what it saw, or the tests that passed. Programs that read everything twice show which statements are
//! no hits the second time ([`crate::second_pass`]).

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail, ensure};
use hopcache_testbed::node::Node;
use hopcache_testbed::report::say;

use crate::second_pass::{self, SecondPass};
use crate::stage::Stage;

/// Options of the comparison.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Folders of tests/frameworks; without a name, all.
    which: Vec<String>,
    /// Turn the cache off: what a framework sees then does not depend on what has been cached.
    #[arg(long)]
    uncached: bool,
}

/// The user that frameworks log on as. The trial's Neo4j takes any password.
const LOGIN: [&str; 2] = ["neo4j", "any-password"];

pub(crate) async fn run(options: &Options) -> anyhow::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize()?;
    let frameworks = chosen(&root.join("tests/frameworks"), &options.which)?;
    let entry = if options.uncached { "[entry]\nttl = \"0s\"\n" } else { "" };
    let stage = Stage::start(false, &format!("{entry}{LOG}"), "").await?;
    let (neo4j, node) = (stage.neo4j.addr, &stage.nodes.nodes[0]);
    let hopcache = node.bolt;
    let mut failed = Vec::new();
    for (name, folder) in frameworks {
        say(&format!("\n== {name}"));
        let program = Program { folder, home: root.join("target/tmp/frameworks").join(&name) };
        match program.compare(&neo4j.to_string(), &hopcache.to_string()) {
            Ok(0) => {}
            Ok(lost) => failed.push(format!("{name} ({lost})")),
            Err(error) => {
                say(&format!("{error:#}"));
                failed.push(name.clone());
            }
        }
        if options.uncached || !program.reads_twice() {
            continue;
        }
        if let Err(error) = program.second_pass(node) {
            say(&format!("{error:#}"));
            failed.push(format!("{name} (second pass)"));
        }
    }
    if !failed.is_empty() {
        bail!("not as at Neo4j, or no hit without a reason: {}", failed.join(", "));
    }
    Ok(())
}

/// Each request has a line.
const LOG: &str = "[log]\nlevel = \"info\"\nrequests = true\nformat = \"json\"\n";

/// The folders that were named, or all of them.
fn chosen(all: &Path, which: &[String]) -> anyhow::Result<Vec<(String, PathBuf)>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(all)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.path().join("run.sh").exists() {
            found.push((name, entry.path()));
        }
    }
    found.sort();
    let unknown = which.iter().find(|asked| !found.iter().any(|(name, _)| name == *asked));
    ensure!(unknown.is_none(), "no framework is called {unknown:?}");
    found.retain(|(name, _)| which.is_empty() || which.contains(name));
    Ok(found)
}

/// The program of one framework, and where it is installed.
struct Program {
    folder: PathBuf,
    home: PathBuf,
}

impl Program {
    /// Returns how many lines only Neo4j showed, but for the file `exceptions`, which has a line of the program and its reason in turn.
    fn compare(&self, neo4j: &str, hopcache: &str) -> anyhow::Result<usize> {
        std::fs::create_dir_all(&self.home)?;
        let mut install = Command::new(self.folder.join("install.sh"));
        ensure!(install.arg(&self.home).stdin(Stdio::null()).status()?.success(), "install.sh");
        let exceptions = std::fs::read_to_string(self.folder.join("exceptions")).unwrap_or_default();
        let expected = self.lines(&format!("bolt://{neo4j}"))?;
        let mut lost = 0;
        for scheme in ["bolt", "neo4j"] {
            let seen = self.lines(&format!("{scheme}://{hopcache}"))?;
            let is_excepted = |line: &&String| exceptions.lines().any(|exception| exception == line.as_str());
            let (excepted, missing): (Vec<_>, Vec<_>) = expected.difference(&seen).partition(is_excepted);
            say(&format!(
                "{scheme}: {} at Neo4j, {} missing here, {} exceptions",
                expected.len(),
                missing.len(),
                excepted.len()
            ));
            missing.iter().for_each(|line| say(&format!("  missing: {line}")));
            if !missing.is_empty() {
                seen.difference(&expected).for_each(|line| say(&format!("  instead: {line}")));
            }
            lost += missing.len();
        }
        Ok(lost)
    }

    /// Whether it has the mode that reads everything twice: then it says which statements are no hits, if only that none is.
    fn reads_twice(&self) -> bool {
        self.folder.join("misses").exists()
    }

    /// What it reads finds the second time. Each statement that is no hit then has its reason in the file `misses`, which has the
    /// begin of a pattern and the reason in turn.
    fn second_pass(&self, node: &Node) -> anyhow::Result<()> {
        let reasons = std::fs::read_to_string(self.folder.join("misses"))?;
        let before = node.logged()?.len();
        self.run(&format!("bolt://{}", node.bolt), &["twice"])?;
        let log = || Ok(node.logged()?.split_off(before));
        let seen = SecondPass::of(&second_pass::until_over(log)?)?;
        say(&format!("second pass: {} of {} reads are hits", seen.hits, seen.all));
        let mut unexplained = 0;
        for ((pattern, how), count) in &seen.others {
            let reason = second_pass::reason_of(&reasons, pattern);
            say(&format!("  {count} × {how}: {}: {pattern}", reason.unwrap_or("NO REASON")));
            unexplained += usize::from(reason.is_none());
        }
        ensure!(unexplained == 0, "{unexplained} statements of a second pass are no hits, without a reason");
        Ok(())
    }

    /// The lines that it prints.
    fn lines(&self, url: &str) -> anyhow::Result<BTreeSet<String>> {
        self.run(url, &[])
    }

    fn run(&self, url: &str, more: &[&str]) -> anyhow::Result<BTreeSet<String>> {
        let mut run = Command::new(self.folder.join("run.sh"));
        run.arg(&self.home).arg(url).args(LOGIN).args(more).stdin(Stdio::null()).stderr(Stdio::inherit());
        let output = run.output().with_context(|| format!("start {}/run.sh", self.folder.display()))?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        ensure!(output.status.success(), "{text}\nrun.sh at {url} ended with {}", output.status);
        ensure!(!text.is_empty(), "run.sh at {url} printed nothing");
        Ok(text.lines().map(str::to_owned).collect())
    }
}
