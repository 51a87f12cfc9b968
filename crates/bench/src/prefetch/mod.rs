//! The use of prefetch: sessions walk over a graph on three nodes in turn, in arms that differ only in `[prefetch]`.
//! Also measures the cost of prefetch where it cannot help, and how soon nodes learn from each other.
//!
//! This knows hopcache by its HTTP interface only.
//!
//! | module | decides |
//! |---|---|
//! | [`walks`] | arms beside each other: on walks, on unpredictable clicks, with a full origin |
//! | [`learn`] | the time from a lesson through one node until another predicts by it |
//! | [`limit`] | walks in a closed loop, as fast as Neo4j answers, by `origin.max_concurrent` |
//! | [`walk`], [`pages`], [`graph`], [`source`] | the clicks, the queries, the graph and its source |
//! | [`arm`], [`round`], [`background_load`], [`counts`] | configurations, one measurement, other load, the nodes' counters |
//! | [`verdict`], [`report`] | the conditions; tables, data and plots |
//! | [`successors`], [`owner`] | reads `/admin/v1/successors`; finds the node that learns from a session |

pub(crate) mod arm;
mod background_load;
pub(crate) mod counts;
mod graph;
mod learn;
mod limit;
mod line;
mod options;
mod owner;
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
    /// From one session's lesson through one node until another node predicts by it.
    Learn(learn::Options),
    /// Walks in a closed loop, by the limit of runs at Neo4j: throughput and waits.
    Limit(limit::Options),
    /// The order of the runs that wait, under overload: waits of short, medium and long runs, in both orders.
    Line(line::Options),
}

/// Runs it.
pub(crate) async fn run(options: &Options) -> anyhow::Result<()> {
    match &options.mode {
        None => walks::run(&options.walks).await,
        Some(Mode::Learn(options)) => learn::run(options).await,
        Some(Mode::Limit(options)) => limit::run(options).await,
        Some(Mode::Line(options)) => line::run(options).await,
    }
}
