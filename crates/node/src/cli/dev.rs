//! The arguments of `hopcache dev`: how many nodes, before which Neo4j, and how much of the log is shown.

use clap::{ArgAction, Args};
use hopcache_config::{self, DevOptions, LoadedConfig, NODES_MAX, OriginUri, Secret};

use super::{ConfigArgs, Output, run};
use crate::dev::DevShow;

/// A cluster on this machine.
#[derive(Debug, Args)]
pub(super) struct DevArgs {
    /// How many nodes
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=i64::from(NODES_MAX)))]
    nodes: u16,
    /// Client port of the first node; the next nodes are at +10, +20 …
    #[arg(long, default_value_t = 7475)]
    base_port: u16,
    /// Put the cluster before this Neo4j instead of the sample graph: bolt://, bolt+s:// or bolt+ssc://
    #[arg(long, value_name = "URI", value_parser = neo4j)]
    neo4j: Option<String>,
    /// User of the example that is asked at the start; clients send their own credentials
    #[arg(long, env = "HOPCACHE_USER")]
    user: Option<String>,
    /// Its password; better in the environment, where other users of the machine do not see it
    #[arg(long, env = "HOPCACHE_PASSWORD", hide_env_values = true)]
    password: Option<String>,
    /// Show the log: -v what happens, -vv in detail; without it warnings only
    #[arg(short, long, action = ArgAction::Count)]
    verbose: u8,
    #[command(flatten)]
    config: ConfigArgs,
}

impl Default for DevArgs {
    fn default() -> Self {
        Self {
            nodes: 3,
            base_port: 7475,
            neo4j: None,
            user: None,
            password: None,
            verbose: 0,
            config: ConfigArgs::default(),
        }
    }
}

/// The address of a Neo4j, said to be wrong before anything starts.
fn neo4j(text: &str) -> Result<String, String> {
    match text.parse::<OriginUri>()? {
        OriginUri::Embedded => Err("leave --neo4j out for the sample graph".to_owned()),
        uri @ OriginUri::Bolt { .. } => Ok(uri.to_string()),
    }
}

pub(super) async fn dev(args: &DevArgs, output: Output) -> anyhow::Result<()> {
    let mut sources = args.config.clone();
    sources.sets.extend(args.neo4j.as_ref().map(|uri| format!("origin.uri={uri}")));
    let LoadedConfig { settings: mut base, report, unused, .. } = sources.load()?;
    let is_default = report.source("log.level") == hopcache_config::Source::Default;
    if let Some(level) = level(args.verbose, is_default) {
        level.clone_into(&mut base.log.level);
    }
    let login = args.user.clone().zip(args.password.as_deref().map(Secret::new));
    let show = DevShow { login, is_json: output == Output::Json };
    let options = DevOptions { nodes: args.nodes, base_port: args.base_port, base };
    run::dev(options, show, report, &unused).await
}

/// Warnings, but for nodes that do not reach each other yet: each one starts and ends beside the others.
const QUIET: &str = "warn,hopcache_cluster::membership=error";

/// The log level that replaces the configured one. A configured level counts unless `-v` asks for more.
const fn level(verbose: u8, is_default: bool) -> Option<&'static str> {
    match verbose {
        0 if is_default => Some(QUIET),
        0 => None,
        1 => Some("info"),
        _ => Some("debug"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_address_is_refused_in_words() {
        assert_eq!(neo4j("bolt://db"), Ok("bolt://db:7687".to_owned()));
        for (wrong, word) in
            [("db:7687", "scheme"), ("neo4j://db?policy=x", "routing"), ("embedded:", "leave --neo4j out")]
        {
            let refused = neo4j(wrong).unwrap_err();
            assert!(refused.contains(word), "{wrong}: {refused}");
        }
    }

    #[test]
    fn the_log_is_shown_on_request_or_as_configured() {
        let rows =
            [(0, true, Some(QUIET)), (0, false, None), (1, true, Some("info")), (2, false, Some("debug"))];
        for (verbose, is_default, expected) in rows {
            assert_eq!(level(verbose, is_default), expected);
        }
    }
}
