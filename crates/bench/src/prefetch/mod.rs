//! What prefetch is worth: sessions walk over a graph, three nodes behind round robin, arms that differ in `[prefetch]`
//! alone. Also what it costs where it cannot help, how soon nodes learn from each other, and what that takes.
//!
//! This knows hopcache by its HTTP interface only.
//!
//! | module | decides |
//! |---|---|
//! | [`walks`] | arms beside each other, on walks, on unpredictable clicks, with a full origin |
//! | [`learn`] | the time from a lesson through one node until another predicts by it |
//! | [`gossip`] | bytes of learning, by sessions, patterns and nodes |
//! | [`simulated`] | the same on up to 100 nodes that `hopcache-sim` simulates |
//! | [`walk`], [`pages`], [`graph`], [`source`] | who looks at what, the queries, the graph and where it comes from |
//! | [`arm`], [`round`], [`crowd`], [`counts`] | configurations, one measurement, other load, the nodes' counters |
//! | [`verdict`], [`tell`] | what has to hold; tables, data and plots |
//! | [`taught`], [`owner`] | the one place that reads `/admin/v1/successors`; which node a session teaches |

mod arm;
mod counts;
mod crowd;
mod gossip;
mod graph;
mod learn;
mod owner;
mod pages;
mod round;
mod simulated;
mod source;
mod taught;
mod tell;
mod verdict;
mod walk;
mod walks;

use clap::Subcommand;

/// How to read what these workloads leave.
const READING: &str = include_str!("reading.md");

/// Options of the prefetch benchmark.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Options {
    #[command(subcommand)]
    mode: Option<Mode>,
    #[command(flatten)]
    walks: walks::Options,
}

#[derive(Subcommand)]
enum Mode {
    /// From one session's lesson through one node until another node predicts by it.
    Learn(learn::Options),
    /// Gossip's bytes by sessions, patterns and nodes.
    Gossip(gossip::Options),
}

/// Runs it.
pub(crate) async fn run(options: &Options) -> anyhow::Result<()> {
    match &options.mode {
        None => walks::run(&options.walks).await,
        Some(Mode::Learn(options)) => learn::run(options).await,
        Some(Mode::Gossip(options)) => gossip::run(options).await,
    }
}
