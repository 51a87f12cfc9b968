//! The use of prefetch: sessions walk over a graph on three nodes in turn, in arms that differ only in `[prefetch]`.
//! Also measures the cost of prefetch where it cannot help.
//!
//! This knows hopcache by its HTTP interface only.
//!
//! | module | decides |
//! |---|---|
//! | [`walks`] | arms beside each other: on walks, on unpredictable clicks, with a full origin |
//! | [`limit`] | walks in a closed loop, as fast as Neo4j answers, by `origin.max_concurrent` |
//! | [`walk`], [`pages`], [`graph`], [`source`] | the clicks, the queries, the graph and its source |
//! | [`arm`], [`round`], [`background_load`], [`counts`] | configurations, one measurement, other load, the nodes' counters |
//! | [`verdict`], [`report`] | the conditions; tables, data and plots |
//! | [`successors`] | reads `/admin/v1/successors` |

pub(crate) mod arm;
mod background_load;
pub(crate) mod counts;
mod graph;
mod limit;
mod options;
pub(crate) mod pages;
mod report;
mod round;
pub(crate) mod source;
mod successors;
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
