//! `cargo xtask services`: one Redis and one real Neo4j for development and tests.
//!
//! Redis and Neo4j live under `target/services`; of a Docker Engine only its pid and log do, see [`engine`]. A service named by an environment variable is used as it is, and never
//! started, changed or stopped. `down` stops exactly the processes that `up` started.

pub(crate) mod engine;
mod environment;
pub(crate) mod install;
mod neo4j;
pub(crate) mod process;
mod redis;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Subcommand;

pub(crate) use environment::{Environment, Neo4jServer};

#[derive(Subcommand, Clone, Copy)]
pub(crate) enum Action {
    /// Start what is not running yet; installs what is missing when root.
    Up,
    /// Start a Docker Engine when none answers; `down` stops it.
    Engine,
    /// Stop what `up` started.
    Down,
    /// Say what runs where.
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

/// Brings both services up and returns where they are. Does nothing for what runs already.
pub(crate) fn up(root: &Path) -> Result<Environment> {
    let folder = folder(root);
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let given = Environment::from_process();
    // The file keeps only what was started here: a server the user named is not ours to find again.
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

/// Whether a service started by `up` runs now: who finds one running does not stop it.
pub(crate) fn any_running(root: &Path) -> bool {
    let folder = folder(root);
    [redis::pid_file(&folder), neo4j::pid_file(&folder)].iter().any(|file| process::running(file).is_some())
}

/// A Redis of the caller's own, in `folder`; its URL. Nothing that the user named is used.
pub(crate) fn own_redis(folder: &Path) -> Result<String> {
    install::missing(&[install::REDIS])?;
    let mut started = Environment::read(folder)?;
    redis::up(folder, &mut started)?;
    started.redis.context("a started Redis has a URL")
}

/// Where the pid of [`own_redis`] stands.
pub(crate) fn own_redis_pid_file(folder: &Path) -> PathBuf {
    redis::pid_file(folder)
}

/// The Neo4j that the user named, else the one of `up`, and whether it was started by this call.
pub(crate) fn neo4j_up(root: &Path) -> Result<(Neo4jServer, bool)> {
    let named = Environment::from_process().neo4j;
    if let Some(server) = named {
        return Ok((server, false));
    }
    let folder = folder(root);
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let mut started = Environment::read(&folder)?;
    let ran_before = process::running(&neo4j::pid_file(&folder)).is_some();
    install::missing(&needed(
        &Environment { redis: Some(String::new()), ..Environment::default() },
        &folder,
    ))?;
    neo4j::up(root, &folder, &mut started)?;
    Ok((started.neo4j.context("a started Neo4j has addresses")?, !ran_before))
}

/// Stops the Neo4j that [`neo4j_up`] started.
pub(crate) fn neo4j_down(root: &Path) -> Result<()> {
    let folder = folder(root);
    process::stop("neo4j", &neo4j::pid_file(&folder))?;
    Environment { neo4j: None, ..Environment::read(&folder)? }.write(&folder)
}

/// The folder with Neo4j's jars, fetched when they are not there yet.
pub(crate) fn neo4j_jars(root: &Path) -> Result<PathBuf> {
    let folder = folder(root);
    if !neo4j::jars_complete(&folder) {
        std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        install::missing(&[install::MAVEN])?;
        neo4j::fetch_jars(root, &folder)?;
    }
    Ok(folder.join("neo4j-lib"))
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
