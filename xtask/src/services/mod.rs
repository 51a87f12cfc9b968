//! `cargo xtask services`: one Redis and one real Neo4j for development and tests.
//!
//! Redis and Neo4j keep their state under `target/services`. A Docker Engine has only its pid file and log there, see
//! [`engine`]. xtask never starts, changes or stops a service that an environment variable names. `down` stops exactly
//! the processes that `up` started.

pub(crate) mod engine;
mod environment;
pub(crate) mod install;
mod neo4j;
pub(crate) mod process;
mod redis;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Subcommand;

pub(crate) use environment::Environment;

#[derive(Subcommand, Clone, Copy)]
pub(crate) enum Action {
    /// Start the services that do not run yet. As root, install missing programs.
    Up,
    /// Also start a Docker Engine if none answers. `down` stops it.
    Engine,
    /// Stop the services that `up` started.
    Down,
    /// Show which services run, and where.
    Status,
    /// Print the variables tests read, as `export` lines.
    Env,
}

pub(crate) fn run(root: &Path, action: Action) -> Result<()> {
    let folder = folder(root);
    match action {
        Action::Up => up(root).map(|_| ()),
        Action::Engine => engine::up(root).map(|_| ()),
        Action::Down => down(root).and_then(|()| engine::down(root)),
        Action::Status => {
            for (name, pid_file) in [("redis", redis::pid_file(&folder)), ("neo4j", neo4j::pid_file(&folder))]
            {
                match process::running(&pid_file) {
                    Some(pid) => println!("{name}: running, pid {pid}"),
                    None => println!("{name}: not started by xtask"),
                }
            }
            print!("{}", Environment::from_process().or(Environment::read(&folder)?).export_lines());
            Ok(())
        }
        Action::Env => {
            print!("{}", Environment::from_process().or(Environment::read(&folder)?).export_lines());
            Ok(())
        }
    }
}

/// Starts both services if they do not run, and returns their addresses.
pub(crate) fn up(root: &Path) -> Result<Environment> {
    let folder = folder(root);
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let given = Environment::from_process();
    // The file keeps only services that xtask started. The user's variables name the others each time.
    let mut started = Environment::read(&folder)?;
    install::missing(&needed(&given, &folder))?;
    if given.redis.is_none() {
        redis::up(&folder, &mut started)?;
    }
    if given.neo4j.is_none() {
        neo4j::up(root, &folder, &mut started)?;
    }
    Ok(given.or(started))
}

pub(crate) fn down(root: &Path) -> Result<()> {
    let folder = folder(root);
    if !folder.exists() {
        return Ok(());
    }
    process::stop("redis", &redis::pid_file(&folder))?;
    process::stop("neo4j", &neo4j::pid_file(&folder))?;
    Environment::default().write(&folder)
}

/// Whether a service that `up` started runs now. The caller does not stop a service that ran before.
pub(crate) fn any_running(root: &Path) -> bool {
    let folder = folder(root);
    [redis::pid_file(&folder), neo4j::pid_file(&folder)].iter().any(|file| process::running(file).is_some())
}

/// The folder with Neo4j's jars. Fetches missing jars.
pub(crate) fn neo4j_jars(root: &Path) -> Result<PathBuf> {
    let folder = folder(root);
    if !neo4j::jars_complete(&folder) {
        std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        install::missing(&[install::MAVEN])?;
        neo4j::fetch_jars(root, &folder)?;
    }
    Ok(folder.join("neo4j-lib"))
}

/// The folder of APOC Core's jars.
pub(crate) fn neo4j_plugins(root: &Path) -> Result<PathBuf> {
    let plugins = folder(root).join("neo4j-plugins");
    neo4j::fetch_plugins(root, &plugins)?;
    Ok(plugins)
}

fn folder(root: &Path) -> PathBuf {
    root.join("target/services")
}

fn needed(given: &Environment, folder: &Path) -> Vec<install::Tool> {
    let mut tools = Vec::new();
    if given.redis.is_none() {
        tools.push(install::REDIS);
    }
    if given.neo4j.is_none() {
        tools.push(install::JAVA);
        if !neo4j::jars_complete(folder) {
            tools.push(install::MAVEN);
        }
    }
    tools
}
