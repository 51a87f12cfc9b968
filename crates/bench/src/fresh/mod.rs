//! What proofs of freshness and writes cost and gain, beside `freshness.mode = "ttl"`, over a real Neo4j.
//!
//! Every measurement has new nodes and a new Redis. Arms alternate.

mod cost;
mod mix;
mod noticed;
mod scene;

use clap::Subcommand;

/// Options of the benchmarks of freshness.
#[derive(clap::Args)]
pub(crate) struct Options {
    #[command(subcommand)]
    bench: Bench,
}

#[derive(Subcommand)]
enum Bench {
    /// Reads with a share of writes: hits, runs and times, `proved` beside `ttl`.
    Mix(mix::Options),
    /// After what time a write past Hopcache is noticed, and what the watcher costs.
    Noticed(noticed::Options),
    /// The CPU time of a proved hit, and the time that telling adds to a write.
    Cost(cost::Options),
}

/// Runs one.
pub(crate) async fn run(options: &Options) -> anyhow::Result<()> {
    match &options.bench {
        Bench::Mix(options) => mix::run(options).await,
        Bench::Noticed(options) => noticed::run(options).await,
        Bench::Cost(options) => cost::run(options).await,
    }
}
