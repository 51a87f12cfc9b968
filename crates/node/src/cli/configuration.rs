//! `hopcache config show / check / schema`.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use clap::{Args, Subcommand};
use hopcache_config::{ClusterSettings, LoadedConfig, OriginUri, Settings, Source, StoreUri};
use hopcache_engine::ports::OriginFault;
use hopcache_neo4j::own_login;
use hopcache_ops::meters::Meters;
use serde_json::json;
use tokio::net::TcpStream;
use tokio::time::error::Elapsed;
use tokio::time::timeout;

use super::{ConfigArgs, Output, table};
use crate::serve::{open_origin, open_store, shared_origin};
use crate::terminal::{print, print_json, say};

/// What to do with the configuration.
#[derive(Debug, Subcommand)]
pub(super) enum ConfigCommand {
    /// Print every key with its value and where it came from; secrets are masked
    Show(ConfigArgs),
    /// Check it, and say everything that is wrong
    Check(CheckArgs),
    /// Print the JSON schema of the file
    Schema,
}

/// What to check.
#[derive(Debug, Args)]
pub(super) struct CheckArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// Also connect to Neo4j, to the store and to the seeds, as the node would
    #[arg(long)]
    connect: bool,
}

pub(super) async fn execute(command: &ConfigCommand, output: Output) -> anyhow::Result<()> {
    match command {
        ConfigCommand::Show(args) => show(args, output),
        ConfigCommand::Check(args) => check(args, output).await,
        ConfigCommand::Schema => print_json(&hopcache_config::schema()),
    }
}

fn show(args: &ConfigArgs, output: Output) -> anyhow::Result<()> {
    let hopcache_config::LoadedConfig { report, unused, .. } = args.load()?;
    hopcache_config::warnings(&unused).iter().for_each(|warning| say(warning));
    if output == Output::Json {
        return print_json(&report.to_json());
    }
    let rows = report.lines().into_iter().map(|line| vec![line.key, line.value, line.source.to_string()]);
    print(&table::render(&["key", "value", "source"], rows))
}

async fn check(args: &CheckArgs, output: Output) -> anyhow::Result<()> {
    let result = args.config.load();
    let mut problems: Vec<String> = match &result {
        Ok(loaded) => [loaded.settings.tls_problems(), shared_nothing(&loaded.settings)].concat(),
        Err(errors) => errors.0.iter().map(ToString::to_string).collect(),
    };
    let mut warnings = Vec::new();
    if let Ok(loaded) = &result {
        warnings.extend(hopcache_config::warnings(&loaded.unused));
        warnings.extend(open_secrets(loaded));
        if args.connect {
            problems.extend(unreached(&loaded.settings).await);
        }
    }
    if output == Output::Json {
        print_json(&json!({"ok": problems.is_empty(), "problems": problems, "warnings": warnings}))?;
    }
    warnings.iter().for_each(|warning| say(warning));
    result?;
    if !problems.is_empty() {
        bail!("{}", problems.join("\n"));
    }
    say(if args.connect {
        "The configuration is sound, and Neo4j, the store and the seeds answer."
    } else {
        "The configuration is sound. (--connect also connects to Neo4j, the store and the seeds.)"
    });
    Ok(())
}

/// Nodes of one cluster that have a store each: every one of them runs each query, and none hears of another's purges.
fn shared_nothing(settings: &Settings) -> Vec<String> {
    let others = settings.cluster.seeds.iter().filter(|seed| !ClusterSettings::is_self(&settings.node, seed));
    let is_alone = !matches!(settings.store, StoreUri::Memory) || others.count() == 0;
    let problem = "store.uri: \"memory:\" is inside one process, and cluster.seeds names other nodes: give all of them one Redis";
    if is_alone { Vec::new() } else { vec![problem.to_owned()] }
}

/// Files with secrets that every user of the machine may read.
fn open_secrets(loaded: &LoadedConfig) -> Vec<String> {
    const FILES: [&str; 6] = [
        "cluster.key_file",
        "cluster.previous_key_file",
        "cluster.data_key_file",
        "node.admin_token_file",
        "origin.password_file",
        "node.client_tls.key_file",
    ];
    let is_open = |path: &Path| {
        std::fs::metadata(path).is_ok_and(|file| file.permissions().mode() & READ_BY_OTHERS != 0)
    };
    let warning = |key: &str| {
        let line = loaded.report.lines().into_iter().find(|line| line.key == key)?;
        let name: String = serde_json::from_str(&line.value).ok()?;
        let path = match &line.source {
            Source::File { path, .. } => path.parent().unwrap_or(Path::new("")).join(name),
            _ => name.into(),
        };
        let advice = format!("{key}: every user of this machine can read {0}: chmod 600 {0}", path.display());
        is_open(&path).then_some(advice)
    };
    FILES.into_iter().filter_map(warning).collect()
}

/// The permission of users who are neither the owner nor in the group.
const READ_BY_OTHERS: u32 = 0o004;

/// For how long `--connect` waits for one of the others.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// What this node needs and cannot reach.
async fn unreached(settings: &Settings) -> Vec<String> {
    let meters = Arc::new(Meters::with(&settings.refresh));
    let mut problems = Vec::new();
    let asked = async { open_store(settings, &meters)?.ping().await.map_err(anyhow::Error::from) };
    problems.extend(failed("store.uri", timeout(CONNECT_TIMEOUT, asked).await));
    let asked = async {
        let shared = shared_origin(settings);
        let origin = open_origin(settings, &meters, &shared).await?;
        // A node with `origin.auth = "passthrough"` has no login of its own: a Neo4j that refuses it answers.
        let answer = origin.reach().await.map_err(|error| error.kind);
        match (answer, own_login::problem(&*origin)) {
            (Ok(()) | Err(OriginFault::Unauthorized(_)), None) => Ok(()),
            (Err(kind), None) => Err(anyhow::anyhow!("Neo4j does not answer ({kind:?})")),
            (_, Some(problem)) => Err(anyhow::anyhow!(problem)),
        }
    };
    // The sample graph is inside the node, which has to be loaded and not to be reached.
    if settings.origin.uri != OriginUri::Embedded {
        problems.extend(failed("origin.uri", timeout(CONNECT_TIMEOUT, asked).await));
    }
    for seed in settings.cluster.seeds.iter().filter(|seed| !ClusterSettings::is_self(&settings.node, seed)) {
        let asked =
            async { TcpStream::connect(seed.to_string()).await.map(drop).map_err(anyhow::Error::from) };
        problems.extend(failed(&format!("cluster.seeds, {seed}"), timeout(CONNECT_TIMEOUT, asked).await));
    }
    problems
}

fn failed(what: &str, asked: Result<anyhow::Result<()>, Elapsed>) -> Option<String> {
    match asked {
        Ok(Ok(())) => None,
        Ok(Err(why)) => Some(format!("{what}: {why:#}")),
        Err(_) => Some(format!("{what}: no answer within {} s", CONNECT_TIMEOUT.as_secs())),
    }
}
