//! The use of prefetch: sessions walk over a graph on three nodes in turn, in arms that differ only in `[prefetch]`.
//!
//! This knows hopcache by its HTTP interface only.
//!
//! | module | decides |
//! |---|---|
//! | [`walks`] | arms beside each other |
//! | [`limit`] | walks in a closed loop, as fast as Neo4j answers, by `origin.max_concurrent` |
//! | [`walk`], [`pages`], [`graph`], [`source`] | the clicks, the queries, the graph and its source |
//! | [`arm`], [`round`], [`counts`] | configurations, one measurement, the nodes' counters |
//! | [`verdict`], [`report`] | the conditions; tables and data |

pub(crate) mod arm;
pub(crate) mod counts;
mod graph;
mod limit;
mod options;
pub(crate) mod pages;
mod report;
mod round;
pub(crate) mod source;
mod verdict;
pub(crate) mod walk;
mod walks;
mod warming;

use clap::Subcommand;

/// Options of the prefetch benchmark.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Options {
    #[command(subcommand)]
    mode: Option<Mode>,
    #[command(flatten)]
    walks: options::WalkOptions,
}

#[derive(Subcommand)]
enum Mode {
    /// Walks in a closed loop, by the limit of runs at Neo4j: throughput and waits.
    Limit(limit::Options),
}

/// Runs it.
pub(crate) async fn run(options: &Options) -> anyhow::Result<()> {
    match &options.mode {
        None => walks::run(&options.walks).await,
        Some(Mode::Limit(options)) => limit::run(options).await,
    }
}
