//! `cargo xtask drivers`: installs Neo4j's drivers, runs every version of them, and runs frameworks on top of them.
//!
//! `tests/drivers` compares what drivers see. This module decides which versions run and when they are installed. The trial
//! `frameworks` compares what a framework's program prints.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result};
use clap::Subcommand;

use crate::bench;
use crate::command::{finish, target};
use crate::services::{self, install};

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
        /// Folders of tests/frameworks; without a name, all. `--uncached` turns the cache off.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
}

pub(crate) fn run(root: &Path, action: &Action) -> Result<()> {
    install::missing(&install::LANGUAGES)?;
    match action {
        Action::Install => install_all(root),
        Action::Versions { args } => versions(root, args),
        Action::Frameworks { args } => frameworks(root, args),
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

/// Installs Neo4j's newest JavaScript driver, and returns the folder whose `node_modules` holds it.
pub(crate) fn javascript(root: &Path) -> Result<PathBuf> {
    let javascript = install::LANGUAGES.into_iter().filter(|tool| ["node", "npm"].contains(&tool.program()));
    install::missing(&javascript.collect::<Vec<_>>())?;
    let newest = newest(root)?.into_iter().find(|(language, _)| language == "javascript");
    let (language, version) = newest.context("tests/drivers/versions names no driver of JavaScript")?;
    install_driver(root, &language, &version)?;
    Ok(driver_folder(root, &language, &version))
}

fn driver_folder(root: &Path, language: &str, version: &str) -> PathBuf {
    target(root).join("tmp/drivers").join(format!("{language}-{version}"))
}

/// Installs a driver where the tests look for it.
fn install_driver(root: &Path, language: &str, version: &str) -> Result<()> {
    let start = Instant::now();
    let folder = driver_folder(root, language, version);
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

/// The trial brings its own Neo4j and nodes.
fn frameworks(root: &Path, args: &[String]) -> Result<()> {
    install::missing(&[install::REDIS])?;
    let jars = services::neo4j_jars(root)?.display().to_string();
    let plugins = services::neo4j_plugins(root)?.display().to_string();
    let variables = [("HOPCACHE_TEST_NEO4J_JARS", &*jars), ("HOPCACHE_TEST_NEO4J_PLUGINS", &*plugins)];
    bench::debug(root, "frameworks", args, &variables)
}
