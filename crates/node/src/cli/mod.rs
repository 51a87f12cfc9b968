//! The command line: the commands and their names. stdout is data, stderr is for messages. Exit codes: 0 done, 1
//! failed, 2 usage. It decides nothing about serving.

mod admin;
mod client;
mod configuration;
mod dev;
mod explain;
mod fields;
mod graph;
mod pages;
mod query;
mod query_bolt;
pub mod run;
mod status;
mod successors;
mod table;
mod top;
mod trust;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use hopcache_config::LoadedConfig;

use crate::terminal::say;

/// A distributed query cache for Neo4j.
///
/// Without a command: `hopcache dev`, a whole cluster on this machine.
#[derive(Debug, Parser)]
#[command(name = "hopcache", version, after_help = "Exit codes: 0 done, 1 failed, 2 wrong usage.")]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    /// Print JSON on stdout.
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Start a whole cluster on this machine, with a sample graph
    Dev(dev::DevArgs),
    /// Start one node
    Serve(ServeArgs),
    /// Run a query, print its result, and on stderr where it came from
    Query(query::QueryArgs),
    /// Say how a query would be answered, and why (not) from the cache
    Explain(explain::ExplainArgs),
    /// Show which query follows which, as learned: as text, as JSON or for Graphviz
    Successors(successors::SuccessorsArgs),
    /// Show whether a node is ready, what is degraded, and the ring as it sees it
    Status(client::AdminArgs),
    /// Watch the cluster: requests, hits, times and runs of each node, and the hottest patterns
    Top(top::TopArgs),
    /// End the entries that a write past Hopcache has touched, on every node
    Invalidate(admin::InvalidateArgs),
    /// Remove entries, in the store and on every node
    Purge(admin::PurgeArgs),
    /// Read the configuration, certificates and passwords again (as SIGHUP does)
    Reload(admin::ReloadArgs),
    /// Make a node leave in good order
    Drain(client::AdminArgs),
    /// Exit with 0 if a node is ready, else 1 (for container checks)
    Health(admin::HealthArgs),
    /// Show or check the configuration, or print its JSON schema
    #[command(subcommand)]
    Config(configuration::ConfigCommand),
    /// Print a completion script for a shell
    Completions(pages::CompletionsArgs),
    /// Write the manual pages of all commands into a directory
    Man(pages::ManArgs),
}

/// Where the configuration comes from.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ConfigArgs {
    /// Configuration file (TOML); HOPCACHE_CONFIG names it as well
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Set one key, over environment and file
    #[arg(long = "set", value_name = "SECTION.KEY=VALUE")]
    sets: Vec<String>,
}

impl ConfigArgs {
    fn load(&self) -> Result<hopcache_config::LoadedConfig, hopcache_config::ConfigErrors> {
        hopcache_config::load(&hopcache_config::Sources::of_process(self.config.clone(), self.sets.clone()))
    }
}

#[derive(Debug, Args)]
struct ServeArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// Serve the sample graph, to any credentials, instead of a Neo4j that origin.uri names
    #[arg(long)]
    sample: bool,
}

impl ServeArgs {
    /// The configuration of one node. A node serves the sample graph only if `--sample` asks for it.
    fn load(&self) -> Result<hopcache_config::LoadedConfig, hopcache_config::ConfigErrors> {
        let loaded = self.config.load()?;
        let is_sample = loaded.settings.origin.uri == hopcache_config::OriginUri::Embedded;
        let is_named = loaded.report.source(ORIGIN_URI) != hopcache_config::Source::Default;
        let (rule, source_of) = match (self.sample, is_named) {
            (false, false) => (
                "say which Neo4j this node is for, for example bolt://127.0.0.1:7687; or give --sample for the sample graph, which answers any credentials",
                hopcache_config::Source::Default,
            ),
            (true, true) if !is_sample => (
                "--sample takes its place: leave one of the two out",
                hopcache_config::Source::Flag("--sample".to_owned()),
            ),
            _ => return Ok(loaded),
        };
        let read = loaded.settings.origin.uri.to_string();
        let problem = hopcache_config::Problem::Together {
            key: ORIGIN_URI.to_owned(),
            rule: rule.to_owned(),
            read,
            source_of,
        };
        Err(hopcache_config::ConfigErrors(vec![problem]))
    }
}

const ORIGIN_URI: &str = "origin.uri";

/// How results are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Output {
    /// Tables and sentences.
    Text,
    /// JSON.
    Json,
}

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    // Two providers in one binary panic at the first TLS configuration; ours is named first thing.
    // `Err` means that one is installed already, which is enough.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let cli = Cli::parse();
    // Read before the runtime begins: a node's configuration says how many threads it has.
    let served = match &cli.command {
        Some(Command::Serve(args)) => match args.load() {
            Ok(loaded) => Some(loaded),
            Err(errors) => return failed(&errors.into()),
        },
        _ => None,
    };
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    if let Some(threads) = served.as_ref().and_then(|loaded| loaded.settings.node.threads) {
        builder.worker_threads(threads);
    }
    let runtime = match builder.enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&error.into()),
    };
    let ended = runtime.block_on(execute(cli, served));
    // Its drop would wait for every blocking call under way, such as a look-up of a name that hangs.
    runtime.shutdown_background();
    match ended {
        Ok(code) => code,
        Err(error) => failed(&error),
    }
}

/// `served`: the configuration of the node that `serve` starts.
async fn execute(cli: Cli, served: Option<LoadedConfig>) -> anyhow::Result<ExitCode> {
    let output = if cli.json { Output::Json } else { Output::Text };
    let Some(command) = cli.command else {
        dev::dev(&dev::DevArgs::default(), output).await?;
        return Ok(ExitCode::SUCCESS);
    };
    match command {
        Command::Dev(args) => dev::dev(&args, output).await?,
        Command::Serve(args) => {
            let loaded = served.map_or_else(|| args.load(), Ok)?;
            run::serve(loaded, output == Output::Json).await?;
        }
        Command::Query(args) => {
            return match args.url.as_deref().and_then(query_bolt::address) {
                Some(address) => query_bolt::query(&args, &address?, output).await,
                None => query::query(&args, output).await,
            };
        }
        Command::Explain(args) => explain::explain(&args, output).await?,
        Command::Successors(args) => return successors::successors(&args, output).await,
        Command::Status(args) => return status::status(&args, output).await,
        Command::Top(args) => top::top(&args, output).await?,
        Command::Invalidate(args) => admin::invalidate(&args, output).await?,
        Command::Purge(args) => admin::purge(&args, output).await?,
        Command::Reload(args) => admin::reload(&args, output).await?,
        Command::Drain(args) => admin::drain(&args, output).await?,
        Command::Health(args) => return admin::health(&args, output).await,
        Command::Config(command) => configuration::execute(&command, output).await?,
        Command::Completions(args) => pages::completions(&args, output)?,
        Command::Man(args) => pages::man(&args, output)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Exit code of wrong usage; clap's own as well.
const USAGE: u8 = 2;

fn failed(error: &anyhow::Error) -> ExitCode {
    say(&format!("hopcache: {error:#}"));
    match error.downcast_ref::<hopcache_config::ConfigErrors>() {
        Some(errors) if errors.is_usage() => ExitCode::from(USAGE),
        _ => ExitCode::FAILURE,
    }
}
