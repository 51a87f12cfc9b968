//! What prefetch is worth: sessions walk over a graph, three nodes behind round robin, arms that differ in `[prefetch]`
//! alone. Also what it costs where it cannot help, and how soon nodes learn from each other.
//!
//! This knows hopcache by its HTTP interface only.
//!
//! | module | decides |
//! |---|---|
//! | [`walks`] | arms beside each other, on walks, on unpredictable clicks, with a full origin |
//! | [`learn`] | the time from a lesson through one node until another predicts by it |
//! | [`walk`], [`pages`], [`graph`], [`source`] | who looks at what, the queries, the graph and where it comes from |
//! | [`arm`], [`round`], [`background_load`], [`counts`] | configurations, one measurement, other load, the nodes' counters |
//! | [`verdict`], [`report`] | what has to hold; tables, data and plots |
//! | [`successors`], [`owner`] | the one place that reads `/admin/v1/successors`; which node a session teaches |

mod arm;
mod background_load;
mod counts;
mod graph;
mod learn;
mod options;
mod owner;
mod pages;
mod report;
mod round;
mod source;
mod successors;
mod verdict;
mod walk;
mod walks;

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
}

/// Runs it.
pub(crate) async fn run(options: &Options) -> anyhow::Result<()> {
    match &options.mode {
        None => walks::run(&options.walks).await,
        Some(Mode::Learn(options)) => learn::run(options).await,
    }
}
